"""`plughost doctor`: the matrix for machines of every kind, and the sandboxes tried for real on this one."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import msgspec
import pytest
from click.testing import CliRunner

from plughost.cli.commands import doctor as command
from plughost.cli.sandbox_selftest import SandboxTrial, try_sandbox
from plughost.sandbox.mechanisms import features as machines
from plughost.sandbox.mechanisms.availability import (
    MechanismReport,
    check_surroundings,
    mechanisms,
    unavailable,
)
from plughost.sandbox.mechanisms.features import KernelFeatures
from plughost.sandbox.memory.cgroups import CgroupParent
from tests.support import ROOT
from tests.support.confinable import needs

FULL = KernelFeatures(
    uid=1000, inner="/inner", bubblewrap="/usr/bin/bwrap", version=(0, 8, 0), landlock=7, seccomp=True,
    separate_nproc=True, hard_limits={},
)  # fmt: skip
AROUND = MechanismReport(compiled=True, users=True, parent=CgroupParent(2, {"memory": "/g", "pids": "/g"}))


def matrix(around=AROUND, **facts):
    found = mechanisms(msgspec.structs.replace(FULL, **facts), around)
    return {each.name: each for each in found}


def test_a_machine_that_has_everything_lacks_nothing():
    found = matrix()
    assert all(each.there for each in found.values())
    assert not any(each.remedy for each in found.values())
    assert found["bubblewrap"].detail == "0.8.0"
    assert unavailable("strict", FULL) is unavailable("landlock", FULL) is None


@pytest.mark.parametrize(
    ("facts", "name", "detail", "remedy", "lost"),
    [
        ({"bubblewrap": None}, "bubblewrap", "not installed", "apt install bubblewrap", {"strict"}),
        ({"bubblewrap": None}, "namespaces", "not tested", "", {"strict"}),
        ({"namespaces": "setting up uid map: no", "remedy": "sysctl x=1"}, "namespaces", "uid map", "sysctl x=1", {"strict"}),
        ({"landlock": 0}, "Landlock", "switched off", "lsm=", {"strict", "landlock"}),
        ({"seccomp": False}, "seccomp", "none", "CONFIG_SECCOMP_FILTER", {"strict", "landlock"}),
        ({"inner": None}, "inner", "no C compiler", "apt install gcc", {"strict", "landlock"}),
        ({"reports_denials": False}, "denials", "refused, not reported", "ptrace_scope", set()),
    ],
)  # fmt: skip
def test_what_is_missing_is_told_with_cause_and_remedy(facts, name, detail, remedy, lost):
    mechanism = matrix(**facts)[name]
    assert (mechanism.there, detail in mechanism.detail, remedy in mechanism.remedy) == (False, True, True)
    here = msgspec.structs.replace(FULL, **facts)
    assert {each for each in ("strict", "landlock") if unavailable(each, here) is not None} == lost


def test_an_older_landlock_is_told_with_what_it_does_not_hold():
    assert matrix(landlock=4)["Landlock"].detail == (
        "ABI 4: files, truncating, TCP ports; not devices, signals and abstract sockets"
    )


def test_users_and_control_groups_are_told_as_they_are():
    assert "1000" in matrix()["user"].detail
    assert "61184" in matrix(uid=0)["user"].detail
    alone = matrix(msgspec.structs.replace(AROUND, users=False), uid=0)["user"]
    assert (alone.there, "map the uids" in alone.remedy) == (False, True)
    summed = matrix(msgspec.structs.replace(AROUND, parent=None))["control groups"]
    assert (summed.there, "the host measures memory" in summed.detail) == (False, True)
    v1 = CgroupParent(1, {"memory": "/m/plughost", "pids": "/p/plughost"})
    assert matrix(msgspec.structs.replace(AROUND, parent=v1))["control groups"].detail.startswith(
        "v1, /m/plug"
    )
    wrong = matrix(check_surroundings("/no-such-group"))["control groups"]
    assert (wrong.there, "PLUGHOST_CGROUP" in wrong.remedy) == (False, True)


def test_elsewhere_than_on_linux_it_is_refused_with_the_reason():
    (only,) = matrix(linux=False).values()
    assert (only.there, "Linux only" in only.detail) == (False, True)
    assert unavailable("strict", msgspec.structs.replace(FULL, linux=False))[0] == only.detail


@pytest.mark.parametrize("confined", ["strict", "landlock"])
async def test_a_class_holds_against_every_attempt(confined):
    needs(confined)
    tried = await try_sandbox(confined)
    assert tried.works, tried
    assert set(tried.attempts) == {"read", "connect", "mount", "signal"}
    assert all(came.startswith("refused") for came in tried.attempts.values()), tried
    assert {word.split()[0] for word in tried.confined_by} >= {"landlock", "seccomp"}


async def test_the_same_attempts_get_out_where_nothing_holds_them():
    tried = await try_sandbox("none", ("read", "connect"))
    assert (tried.works, tried.escaped, tried.detail) == (False, True, "a plugin escaped: read, connect")


def doctor(env=None):
    ran = subprocess.run(
        [sys.executable, "-m", "plughost.cli", "doctor", "--json"],
        capture_output=True, text=True, cwd=ROOT, timeout=60, env={**os.environ, **(env or {})},
    )  # fmt: skip
    return ran.returncode, json.loads(ran.stdout)


def test_a_class_that_cannot_be_had_is_told_and_is_no_failure_of_the_machine(tmp_path):
    (tmp_path / "sh").symlink_to("/bin/sh")
    status, told = doctor({"PATH": str(tmp_path)})
    classes = {each["sandbox"]: each for each in told["sandbox"]["classes"]}
    assert (status, told["ok"]) == (0, True)
    assert (classes["strict"]["works"], classes["strict"]["escaped"]) == (False, False)
    assert classes["strict"]["detail"]
    assert classes["strict"]["remedy"]


@pytest.mark.parametrize(
    ("tried", "status", "words"),
    [
        (SandboxTrial("strict", True, attempts={"read": "refused: x"}), 0, "works: read refused"),
        (
            SandboxTrial.without("strict", "no [bold]bwrap[/]", "install it"),
            0,
            "unavailable: no [bold]bwrap[/]",
        ),
        (
            SandboxTrial("strict", False, True, "a plugin escaped: read"),
            3,
            "not safe: a plugin escaped",
        ),
    ],
)
def test_only_a_sandbox_that_leaks_is_a_failure(monkeypatch, tried, status, words):
    async def told(confined):
        return tried

    monkeypatch.setattr(machines, "kernel_features", lambda: FULL)
    monkeypatch.setattr(command, "try_sandbox", told)
    ran = CliRunner().invoke(command.doctor, [])
    assert (ran.exit_code, words in ran.output) == (status, True), ran.output
