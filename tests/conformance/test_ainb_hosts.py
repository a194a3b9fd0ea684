"""ainb: canaries in a host tell whether it keeps the contract; in ours, and in ours with one thing broken."""

from __future__ import annotations

import asyncio
import random
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import NamedTuple

import msgspec
import pytest
from click.testing import CliRunner

from plughost.cli.commands.conform import conform
from plughost.conformance.ainb import ORDER, host_under_test
from plughost.conformance.ainb.host_under_test import HostTrial
from plughost.conformance.runner import ConformanceReport
from plughost.errors import InvalidSpec
from tests.support import ROOT, all_gone
from tests.support.shared import computed_once

PLUGHOST = f"{sys.executable} -m plughost.cli"
FAULTY = f"{sys.executable} {shlex.quote(str(ROOT / 'tests/support/faulty_host.py'))}"
pytestmark = pytest.mark.timeout(
    300
)  # all are tried in the first test's setup; a busy machine takes its time
AT_A_TIME = 4

REASONS = {
    "manifest": "abi_version is 3, not 2",
    "framing": "bodies that are not JSON-RPC: they should be dropped",
    "dispatch": "not the error -32601",
    "capabilities": "not the error -32001",
    "render": "it asks for a frame of 0x0",
    "pubsub": "to its own publisher",
    "action": "not the error -32002",
    "log": "log levels are not filtered",
    "files": "leads-out.txt",
    "shutdown": "without the request plugin/shutdown",
    "recovery": "that is no backoff",
    "quarantine": "that has died three times",
    "cli": "it ended with 0, not with the plugin's exit code 3",
    "chunks": "a chunk came out of its order",
}


@pytest.fixture(scope="module", autouse=True)
def this_path() -> Iterator[None]:
    """The modules of these tests for the hosts that they start."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", ":".join(path for path in sys.path if path))
        yield


def ourselves() -> subprocess.Popen[bytes]:
    """Our own host put through all axes."""
    command = [*shlex.split(PLUGHOST), "conform", "--json", "--host", f"{PLUGHOST} run --root {{root}}"]
    command += ["--cli", f"{PLUGHOST} x --root {{root}} {{namespace}} {{args}}"]
    return subprocess.Popen(command, stdout=subprocess.PIPE)


BESIDE = 4
"""How many other axes a host with one thing broken is asked for; `make soak` asks for all."""
SLOW = {"quarantine", "cli"}
"""That a plugin is left alone takes long to see, and a second host takes long to start."""


def some(fault: str) -> list[str]:
    """The axis of a fault and a few others, always the same."""
    others = [name for name in ORDER if name not in SLOW and name != fault]
    return [fault, *random.Random(fault).sample(others, BESIDE)]


def most(fault: str) -> list[str]:
    return [name for name in ORDER if name not in SLOW or name == fault]


async def judge(axes: Callable[[str], list[str]]) -> dict[str, ConformanceReport]:
    """Try a host with each fault."""
    turn = asyncio.Semaphore(AT_A_TIME)

    async def trial(fault: str) -> ConformanceReport:
        command = f"{FAULTY} {fault}"
        limit = 20 if fault == "framing" else 60  # whose canary is ended: its verdict never comes
        host = HostTrial(
            f"{command} run --root {{root}}", f"{command} x --root {{root}} {{namespace}} {{args}}", limit
        )
        async with turn:
            return await host.run(axes(fault))

    found = dict(zip(ORDER, await asyncio.gather(*map(trial, ORDER)), strict=True))
    for fault, report in found.items():
        if not only(fault, report):  # once more, alone: on a busy machine a slow start looks like a backoff
            found[fault] = await trial(fault)
    return found


class Tried(NamedTuple):
    """Hosts put through their axes."""

    own_output: bytes
    own_status: int
    reports: dict[str, ConformanceReport]
    """Of hosts with one thing broken, by what it is."""


@pytest.fixture(scope="module")
def tried(this_path: None, tmp_path_factory: pytest.TempPathFactory) -> Tried:
    """Our own host is begun first: it watches a quarantined plugin for a while, and meanwhile the others are
    tried."""

    def all_hosts() -> Tried:
        with ourselves() as running:
            try:
                reports = asyncio.run(judge(some))
                out, _ = running.communicate(timeout=120)
            finally:
                running.kill()
        return Tried(out, running.returncode, reports)

    return computed_once(tmp_path_factory, "conformance-ainb-hosts", all_hosts)


def only(fault: str, report: ConformanceReport) -> bool:
    """Whether it has failed just the axis that it should, for the right reason."""
    failed = [verdict for verdict in report.verdicts if verdict.outcome == "failed"]
    return [verdict.axis for verdict in failed] == [fault] and REASONS[fault] in failed[0].reason


@pytest.mark.clause("AINB-70")
@pytest.mark.parametrize("fault", ORDER)
def test_a_host_with_one_thing_broken_fails_just_that_axis_and_is_told_why(tried, fault):
    assert only(fault, tried.reports[fault]), tried.reports[fault]


def test_every_axis_is_also_asked_of_a_host_that_breaks_another():
    asked = {name for fault in ORDER for name in some(fault) if name != fault}
    assert asked == set(ORDER) - SLOW


@pytest.mark.soak
@pytest.mark.clause("AINB-70")
async def test_a_host_with_one_thing_broken_passes_all_other_axes():
    reports = await judge(most)
    assert [report for fault, report in reports.items() if not only(fault, report)] == []


@pytest.mark.clause("AINB-70")
def test_our_own_host_keeps_the_contract_as_far_as_it_can_be_seen_from_the_inside(tried):
    report = msgspec.json.decode(tried.own_output)
    verdicts = {verdict["axis"]: verdict for verdict in report["verdicts"]}
    assert [verdict for verdict in verdicts.values() if verdict["outcome"] == "failed"] == []
    assert [name for name in ORDER if verdicts[name]["outcome"] == "skipped"] == ["render"]
    assert "plugin/render did not come" in verdicts["render"]["reason"]
    assert tried.own_status == 0


async def test_a_host_that_ends_by_itself_fails_at_once_and_its_words_are_shown():
    report = await HostTrial("sh -c 'echo no such thing as {root} >&2; exit 4'").run(["manifest"])
    (verdict,) = report.verdicts
    assert verdict.outcome == "failed"
    assert "never started" in verdict.reason
    assert "it exited by itself, with 4" in verdict.reason
    assert "no such thing as" in verdict.frames[-1]


async def test_a_host_with_a_screen_is_asked_for_the_axis_render():
    report = await HostTrial(f"{FAULTY} draws run --root {{root}}").run(["render"])
    assert [verdict.outcome for verdict in report.verdicts] == ["passed"]


async def test_of_a_host_that_does_not_end_nothing_is_left(mark, monkeypatch):
    monkeypatch.setattr(host_under_test, "LAST_WAIT", 0.1)
    report = await HostTrial(
        f"sh -c 'trap \"\" INT TERM; sleep 100 & sleep 100 # {mark} {{root}}'", limit=0.1
    ).run(["log"])
    assert report.count("failed") == 1
    await all_gone(mark)


def test_what_belongs_to_a_host_is_refused_for_a_plugin_and_the_other_way_round():
    for words in (["--cli", "x", "."], ["--wait", "3", "."], ["--host", "my-host {root}", "."]):
        result = CliRunner().invoke(conform, words, obj=[])
        assert result.exit_code == 2, result.output


def test_a_command_must_say_where_the_plugins_go():
    with pytest.raises(InvalidSpec, match="--host needs {root}"):
        HostTrial("my-host")
    with pytest.raises(InvalidSpec, match="--cli needs {namespace}"):
        HostTrial("my-host {root}", "my-host {root} {args}")
    with pytest.raises(InvalidSpec, match="no such axis: rendering"):
        asyncio.run(HostTrial("my-host {root}").run(["rendering"]))


async def test_a_host_that_gives_up_on_a_broken_manifest_is_still_judged_by_everything_else():
    """The original host does: the broken manifest lies in a root of its own."""
    report = await HostTrial(f"{FAULTY} discovery run --root {{root}}").run(["manifest", "dispatch", "log"])
    outcomes = {verdict.axis: verdict.outcome for verdict in report.verdicts}
    assert outcomes == {"manifest": "failed", "dispatch": "passed", "log": "passed"}
    assert report.verdicts[0].reason.startswith(
        "it does not load a plugin beside another one whose manifest cannot be read; it exited by itself"
    )
