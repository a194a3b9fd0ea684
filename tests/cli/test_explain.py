"""`plughost explain`: what is told is what is so, and the words it offers grant what they say."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import tomllib
import uuid
from pathlib import Path
from types import SimpleNamespace

import msgspec
import pytest

from plughost.cli.ui.explanation import show
from plughost.contracts.base import Permissions, ResolvedSpec
from plughost.engine.launcher.launch import Launch
from plughost.engine.policy import LifecyclePolicy
from plughost.errors import SandboxUnavailable
from plughost.permissions import parse
from plughost.permissions.access import Access, Endpoint, ResourceLimits
from plughost.permissions.capability import Capability
from plughost.sandbox.explain.build import explain
from plughost.sandbox.explain.report import GrantSource
from plughost.sandbox.mechanisms.features import KernelFeatures
from plughost.sandbox.plan import unconfined
from plughost.sandbox.users import RECORDS
from plughost.services.host_method import HostMethod
from plughost.spec import PluginSpec
from tests.support import ROOT
from tests.support.command_line import run_here
from tests.support.confinable import PATH, needs

MACHINE = KernelFeatures(
    uid=1000, inner="/inner", bubblewrap=None, landlock=6, seccomp=True, separate_nproc=True, hard_limits={}
)
CONTRACT = SimpleNamespace(
    name="made-up",
    sandbox="none",
    default_grants=("declared",),
    host_methods={"host/fetch": HostMethod("network.fetch", "network"), "host/log": HostMethod("logs.log")},
)
MISSING = SandboxUnavailable("bubblewrap is not installed", hint="apt install bubblewrap")


def explained(
    *, here=MACHINE, source=None, problem=None, asked=None, held=(), declared=None, own=None, **said
):
    spec = PluginSpec(contract="made-up", name="p", command=["/bin/p"], **said)
    permissions = Permissions(frozenset(held), asked=asked, declared=declared, own=own or Access())
    resolved = ResolvedSpec(LifecyclePolicy(), {}, permissions)
    decided = problem or unconfined(Launch(("/bin/p",), {}), Access())
    return explain(spec, CONTRACT, resolved, decided, here, source)


def rules(found):
    return {(grant.kind, grant.what): (grant.rule, grant.by) for grant in found.granted}


def test_each_grant_is_told_with_whose_word_it_was():
    found = explained(
        problem=MISSING,
        sandbox="strict",
        grants=("network", "log"),
        asked=(Capability("network"), Capability("log")),
        held=(Capability("network"), Capability("log")),
        declared=Access(read=("/a/b",), connect=(Endpoint("api.example.com", 443),)),
        own=Access(write=("/data",)),
        allow=Access(read=("/a",), connect=(Endpoint("*.example.com", 443),)),
        limits=ResourceLimits(memory=1 << 20, processes=3),
        source=GrantSource(
            file="my.toml",
            grants=("log",),
            allow=Access(connect=(Endpoint("*.example.com", 443),)),
            limits=("processes",),
        ),
    )
    assert found.chosen_by == "my.toml"
    assert rules(found) == {
        ("capability", "network"): ("its manifest asks; my.toml: network", "the host, at each host/fetch"),
        ("capability", "log"): ("its manifest asks; --grant: log", "the host"),
        ("read", "/a/b"): ("its manifest asks; my.toml: allow.read", "mount namespace, Landlock 6"),
        ("write", "/data"): ("its own", "mount namespace, Landlock 6"),
        ("connect", "api.example.com:443"): (
            "its manifest asks; --allow connect",
            "network namespace, proxy",
        ),
    }
    limits = {limit.name: (limit.value, limit.rule) for limit in found.limits}
    assert limits["memory"] == (1 << 20, "my.toml: limits")
    assert limits["processes"] == (3, "--limit")
    assert limits["scratch"] == (64 << 20, "plughost's default")
    assert (found.missing, found.unused) == ((), ())


def test_the_contracts_default_is_told_as_such():
    found = explained(grants=("declared",), asked=(Capability("log"),), held=(Capability("log"),))
    assert rules(found)["capability", "log"][0] == "its manifest asks; the contract's default: declared"
    assert found.chosen_by == "the contract's default"


def test_what_was_asked_for_and_not_granted_comes_with_the_words_that_grant_it():
    declared = Access(
        read=("/a", "/it's here"),
        execute=("/bin/ls",),
        connect=(Endpoint("api.example.com", 443), Endpoint("intern", 80, private=True)),
    )
    allow = Access(read=("/a/b",), connect=(Endpoint("intern", 80),))
    found = explained(declared=declared, allow=allow, sandbox="strict", problem=MISSING)
    missing = {(each.kind, each.what): each for each in found.missing}
    assert set(missing) == {
        ("read", "/a"),
        ("read", "/it's here"),
        ("execute", "/bin/ls"),
        ("connect", "api.example.com:443"),
        ("connect", "intern:80 private"),
    }
    assert missing["read", "/a"].why == "only /a/b is allowed"
    for each in found.missing:
        for words in (
            tomllib.loads(each.toml)["allow"],
            {each.kind: [shlex.split(each.option)[1].partition("=")[2]]},
        ):
            allowed = parse.union(allow, parse.parse_access(words, "/"))
            left = explained(declared=declared, allow=allowed, sandbox="strict", problem=MISSING).missing
            assert (each.kind, each.what) not in {(one.kind, one.what) for one in left}


def test_what_was_granted_and_not_asked_for_is_told():
    found = explained(
        declared=Access(read=("/a",)),
        allow=Access(read=("/a", "/b"), connect=(Endpoint("x.example", 1),)),
        grants=("network",),
        asked=(),
    )
    assert found.unused == ("grant network", "allow read /b", "allow connect x.example:1")


def test_the_class_none_says_that_nothing_is_enforced_and_what_the_host_checks(capsys):
    found = explained(
        sandbox="none",
        allow=Access(read=("/a",)),
        limits=ResourceLimits(memory=1),
        held=(Capability("network"),),
    )
    assert rules(found)["read", "/a"] == ("plughost.toml: allow.read", "nothing: class none")
    assert {limit.by for limit in found.limits} == {"nothing: class none"}
    assert [(check.method, check.needs, check.allowed) for check in found.wire] == [
        ("host/fetch", ("network",), True),
        ("host/log", (), True),
    ]
    assert [lint.split(" ")[0] for lint in found.lints] == ["sandbox", "`allow`", "`limits`"]
    assert explained().lints == (), "who says nothing is told at the start of `run`, not for each plugin"
    show(found)
    assert "the kernel enforces nothing" in capsys.readouterr().out


def test_a_landlock_that_does_not_hold_signals_is_not_said_to():
    old = msgspec.structs.replace(MACHINE, landlock=5)
    held = {each.what: each.by for each in explained(sandbox="landlock", problem=MISSING, here=old).held}
    assert held["processes of others"] == "the launcher's PID namespace, Landlock 5"
    held = {each.what: each.by for each in explained(sandbox="landlock", problem=MISSING).held}
    assert held["processes of others"].endswith("Landlock 6")


def test_a_manifests_words_are_text_on_a_terminal(capsys):
    show(explained(asked=(Capability("[red]x[/]", ("\x1b]0;evil\x07",)),)))
    told = capsys.readouterr().out
    assert "[red]x[/]" in told
    assert "\x1b]0" not in told


def plughost(*words, cwd=ROOT, env=None):
    if env is None:
        return run_here(*words, cwd=cwd)
    return subprocess.run(
        [sys.executable, "-m", "plughost.cli", *words],
        capture_output=True, text=True, cwd=cwd, timeout=60, env={**os.environ, **env},
    )  # fmt: skip


def sh(*words, script="read line", **how):
    given = ["explain", "--json", "--contract", "mcptest", *words, "--", "/bin/sh", "-c", script]
    ran = plughost(*given, **how)
    return ran.returncode, json.loads(ran.stdout)


def test_a_real_sandbox_is_explained_and_nothing_is_started(tmp_path):
    needs("strict")
    given = ["--sandbox", "strict", "--allow", "read=/usr/share/doc", "--allow", "connect=example.com:443"]
    status, told = sh(*given, "--limit", "scratch=8M", env={"PATH": PATH}, cwd="/")
    assert (status, told["problem"]) == (0, None), told
    assert "/usr/share/doc" in told["bound"]["read_only"]
    assert set(told["bound"]["writable"]) == {"/tmp", "/dev/shm"}
    assert told["bound"]["scratch"] == 8 << 20
    assert "proxy" in told["bound"]["network"]
    assert {"seccomp"} <= {holding["by"] for holding in told["held"]}
    status, told = sh(script=f"touch {tmp_path}/started")
    assert (status, told["sandbox"], list(tmp_path.iterdir())) == (0, "none", [])


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="there the cause is another")
def test_a_class_that_cannot_be_had_is_exit_3_with_cause_and_remedy_and_all_that_would_be(tmp_path):
    given = ["--sandbox", "strict", "--allow", "read=/usr/share/doc"]
    status, told = sh(*given, env={"PATH": str(tmp_path)})
    assert status == 3
    if told["problem"]["message"] == "bubblewrap is not installed":  # without a compiler it is another
        assert "apt install bubblewrap" in told["problem"]["hint"]
    assert told["bound"] is None
    assert ["read", "/usr/share/doc"] in [[each["kind"], each["what"]] for each in told["granted"]]
    ran = plughost("explain", *given, "--contract", "mcptest", "--", "/bin/sh", env={"PATH": str(tmp_path)})
    assert (ran.returncode, "unavailable" in ran.stdout, "would be granted" in ran.stdout) == (
        3,
        True,
        True,
    )


def test_an_ainb_manifest_and_a_grant_that_narrows_it(tmp_path):
    (tmp_path / "p").mkdir()
    (tmp_path / "p" / "manifest.toml").write_text(
        '[plugin]\nname = "p"\nversion = "1.0.0"\nabi_version = 2\n'
        '[capabilities]\nevent_bus = true\nnetwork = ["a.example", "b.example"]\n'
    )
    (tmp_path / "p" / "p").write_text("#!/bin/sh\n")
    (tmp_path / "p" / "p").chmod(0o755)

    def told(*words):
        return json.loads(plughost("explain", "--json", str(tmp_path / "p"), *words).stdout)

    assert told()["missing"] == []
    narrowed = told("--grant", "network=a.example")
    assert narrowed["asked"]["capabilities"] == ["event_bus", "network[a.example, b.example]"]
    missing = {each["what"]: each for each in narrowed["missing"]}
    assert missing["event_bus"]["why"] == "it is not granted"
    assert missing["network[a.example, b.example]"]["why"] == "only network[a.example] is granted"
    words = [word for each in missing.values() for word in shlex.split(each["option"])]
    assert told("--grant", "network=a.example", *words)["missing"] == []


def test_what_an_ainb_manifest_cannot_have_by_its_own_word_is_granted_by_the_words_that_are_told(tmp_path):
    secret = tmp_path / "deploy.sh"
    secret.write_text("#!/bin/sh\n")
    secret.chmod(0o700)
    (tmp_path / "p").mkdir()
    (tmp_path / "p" / "manifest.toml").write_text(
        '[plugin]\nname = "p"\nversion = "1.0.0"\nabi_version = 2\n[capabilities]\nevent_bus = true\n'
        f'network = ["127.0.0.1", "a.example"]\nspawn_subprocess = ["{secret}"]\n'
    )
    (tmp_path / "p" / "p").write_text("#!/bin/sh\n")
    (tmp_path / "p" / "p").chmod(0o755)

    def told(*words):
        return json.loads(plughost("explain", "--json", str(tmp_path / "p"), *words).stdout)

    found = told()
    assert {each["what"] for each in found["granted"]} == {"event_bus", "network[a.example]"}
    assert len([lint for lint in found["lints"] if "cannot be granted by its manifest" in lint]) == 2
    words = [word for each in found["missing"] for word in shlex.split(each["option"])]
    assert {"declared", "network=127.0.0.1", f"spawn_subprocess={secret}"} == {*words} - {"--grant"}
    by_name = told(*words)
    assert (by_name["missing"], by_name["lints"]) == ([], [])


KAGED = ["read:fs:/usr/share/doc", "exec:env:/usr/bin/env", "net:api.example.com:443", "kaged:storage:write"]


@pytest.fixture
def kaged():
    """Explains a kaged plugin that declares one of each, in a folder that every user can reach; the grants are
    on the command line."""
    root = Path(tempfile.mkdtemp(prefix="plughost-explained-"))
    root.chmod(0o755)
    folder = root / f"kg{uuid.uuid4().hex}"
    folder.mkdir()
    (folder / "manifest.yaml").write_text(
        f"name: {folder.name}\nversion: 1.0.0\nkaged_api: 1\ndescription: explained\nlicense: none\ncommand: [./kg]\n"
        f"methods: [kg.x]\ncapabilities: {json.dumps(KAGED)}\n"
    )
    (folder / "kg").write_text("#!/bin/sh\n")
    (folder / "kg").chmod(0o755)

    def told(*words):
        env = {"XDG_DATA_HOME": str(root / "data")}
        return json.loads(plughost("explain", "--json", str(folder), *words, env=env).stdout)

    yield told
    shutil.rmtree(root)


def granted(told):
    return {each["what"]: each["rule"] for each in told["granted"] if each["rule"] != "its own"}


def test_a_kaged_grant_of_all_that_is_declared_is_the_rule_of_each(kaged):
    told = kaged("--grant", "declared")
    assert told["asked"]["capabilities"] == ["kaged:storage:write"]
    rule = "its manifest asks; --grant: declared"
    what = ["/usr/share/doc", "/usr/bin/env", "api.example.com:443", "kaged:storage:write"]
    assert granted(told) == dict.fromkeys(what, rule)
    assert (told["missing"], told["unused"]) == ([], [])


def test_a_kaged_grant_is_its_own_rule_even_where_nothing_was_asked(kaged):
    told = kaged("--grant", KAGED[2], "--grant", "read:fs:/usr/share/zoneinfo")
    assert granted(told) == {
        "api.example.com:443": f"its manifest asks; --grant: {KAGED[2]}",
        "/usr/share/zoneinfo": "--grant: read:fs:/usr/share/zoneinfo",
    }
    assert told["unused"] == []


def test_what_a_kaged_plugin_lacks_is_granted_by_the_words_that_are_told(kaged):
    missing = kaged()["missing"]
    assert [each["option"] for each in missing] == [
        "--grant kaged:storage:write",
        *(f"--grant {word}" for word in KAGED[:3]),
    ]
    words = [word for each in missing for word in shlex.split(each["option"])]
    assert kaged(*words)["missing"] == []
    assert [tomllib.loads(each["toml"])["grants"] for each in missing] == [
        [shlex.split(each["option"])[1]] for each in missing
    ]


def test_a_vai_manifests_permissions_are_told_though_each_invocation_decides():
    told = json.loads(plughost("explain", "--json", "plugins/acme-devkit").stdout)
    assert told["asked"]["capabilities"] == []
    asked = dict(word.rstrip("]").split("[") for word in told["asked"]["by_call"])
    assert (asked["network"], asked["filesystem"]) == ("egress", "scratch")
    assert "chains:read" in asked["gateway_api_scopes"].split(", ")
    assert "jira_token" in asked["secret_slots"].split(", ")
    assert told["missing"] == []
    assert "jira_token" in plughost("explain", "plugins/acme-devkit").stdout


def test_a_path_is_never_cut(capsys):
    path = "/" + "long-name/" * 12 + "end"
    show(explained(allow=Access(read=(path,))))
    assert "…" not in (told := capsys.readouterr().out)
    assert "end" in told


def test_a_name_that_is_bound_here_is_meant_before_a_folder_of_that_name(tmp_path):
    """As in docs/security.md, where `notes` is a plugin and a folder that it may read."""
    (tmp_path / "notes").mkdir()
    (tmp_path / "other").mkdir()
    (tmp_path / "plughost.toml").write_text(
        '[plugins.notes]\ncontract = "mcptest"\ncommand = ["/bin/sh"]\nallow.read = ["notes"]\n'
    )
    told = json.loads(plughost("explain", "--json", "-c", "plughost.toml", "notes", cwd=tmp_path).stdout)
    assert [each["what"] for each in told["granted"]] == [str(tmp_path / "notes")]
    for folder in ("./other", "./notes"):
        assert "is not a plugin folder" in plughost("explain", folder, cwd=tmp_path).stderr


def test_the_variables_are_told_by_name_and_never_by_value():
    needs("strict")
    given = ["--sandbox", "strict", "--allow", "connect=example.com:443", "--env", "KEY=hush"]
    _, told = sh(*given, env={"PATH": PATH}, cwd="/")
    assert {"KEY", "PATH", "HTTPS_PROXY"} <= set(told["environment"])
    words = ["explain", *given, "--contract", "mcptest", "--", "/bin/sh"]
    shown = plughost(*words, env={"PATH": PATH}, cwd="/").stdout
    assert "HTTPS_PROXY" in shown
    assert "hush" not in shown
    assert "hush" not in json.dumps(told)


def test_explaining_makes_nothing(kaged):
    """Neither its data folder, nor the record of a user that it might become."""
    needs("strict")
    told = kaged()
    assert told["problem"] is None, told
    (data,) = [path for path in told["bound"]["writable"] if path.endswith(told["plugin"])]
    assert not Path(data).parent.exists()
    if os.geteuid() == 0:
        assert told["plugin"].encode() + b"\n" not in [file.read_bytes() for file in Path(RECORDS).glob("*")]
