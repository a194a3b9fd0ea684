"""A package as a plugin of the host: what binds, what it may reach, and what the command line makes of it."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import msgspec
import pytest

import plughost
from plughost import config
from plughost.contracts.vai import target_platform
from plughost.contracts.vai.contract import CONTRACT, Vai, spec_of
from plughost.contracts.vai.target_platform import TargetPlatform
from plughost.permissions.access import Access, Endpoint, ResourceLimits
from tests.support import ROOT
from tests.support.confinable import PATH, needs, open_folder
from tests.support.vai import package, spec, tool


@pytest.fixture
def place(monkeypatch):
    """Where every user can reach it: of a root host, confined plugins are others."""
    needs("strict")
    monkeypatch.setenv("PATH", PATH)
    with open_folder() as place:
        yield place


async def seen(host, bound, *paths):
    result = (await Vai(await host.add(bound)).tool(tool(do="read", paths=[*map(str, paths)]))).result
    return [result.structured_output[str(path)] for path in paths]


def test_a_folder_with_a_manifest_is_a_plugin_in_class_strict(tmp_path):
    told = config.load_folder(package(tmp_path, "--flag"))
    assert (told.contract, told.name) == ("vai", "acme/puppet")
    assert told.command == (str(tmp_path / "package/bin/plugin.py"), "--flag")
    assert (CONTRACT.sandbox, told.sandbox) == ("strict", None)
    binding = CONTRACT.resolve(told)
    assert binding.provides == {"tool": ("act",), "hook": ("react",), "compactor": (), "harness": ()}
    assert binding.methods == {"tool.invoke", "hook.handle", "act", "react"}
    assert binding.policy.call_timeout == 60
    assert CONTRACT.read_folder(tmp_path) is None


@pytest.mark.clause("VAI-22")
def test_a_package_for_another_machine_is_refused_before_anything_runs(tmp_path, monkeypatch):
    told = spec(package(tmp_path))
    monkeypatch.setattr(target_platform, "current_platform", lambda: TargetPlatform("linux", "s390x"))
    with pytest.raises(
        plughost.InvalidSpec, match="is built for linux on amd64, arm64; this machine is linux on s390x"
    ):
        CONTRACT.resolve(told)


def test_what_cannot_be_bound_says_why(tmp_path):
    folder = package(tmp_path)
    for changes, why in (
        ({"cwd": str(tmp_path)}, "has no vai-plugin.toml"),
        ({"grants": ["all"]}, "take no grants"),
        ({"options": {"exports": ["nobody"]}}, "it has no export 'nobody'; it has: act, react"),
        ({"options": {"cancel_grace": "5"}}, "cancel_grace: expected `float`"),
        (
            {"allow": Access(connect=(Endpoint("example.com", 443),))},
            "its manifest does not ask for network access",
        ),
        ({"allow": Access(write=("/var/scratch",))}, "its manifest does not ask for a scratch folder"),
    ):
        with pytest.raises(plughost.InvalidSpec, match=why):
            CONTRACT.resolve(msgspec.structs.replace(spec(folder), **changes))
    (folder / "schemas/any.json").unlink()
    with pytest.raises(plughost.InvalidConfig, match="the package has no file 'schemas/any.json'"):
        spec_of(folder)


@pytest.mark.clause("VAI-04", "VAI-14", "VAI-93")
async def test_confined_it_sees_its_code_and_no_assets_that_it_did_not_ask_for(host, place, monkeypatch):
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-of-the-host")
    folder = package(place)
    (folder / "lib").symlink_to("/etc")
    bound = spec(folder, sandbox=None)
    code, assets, outside, link = await seen(
        host, bound, folder / "schemas/any.json", folder / "assets/words.txt", ROOT / "pyproject.toml", folder / "lib/hostname",
    )  # fmt: skip
    assert code == "{}"
    assert (assets, outside, link) == ("No such file or directory",) * 3
    environment = (await Vai(host.plugins[bound.name]).tool(tool())).result.structured_output["env"]
    assert set(environment) <= {"PATH", "LANG", "LC_CTYPE", "PWD"}


@pytest.mark.clause("VAI-24", "VAI-93")
async def test_with_assets_ro_it_reads_its_assets(host, place):
    folder = package(place, filesystem="assets_ro")
    assert await seen(host, spec(folder, sandbox=None), folder / "assets/words.txt") == ["words of its own\n"]


async def test_a_scratch_folder_limits_and_hosts_go_with_a_process_of_its_own_name(host, place):
    folder = package(place, filesystem="scratch", network="egress")
    scratch = place / "scratch"
    scratch.mkdir()
    scratch.chmod(0o777)
    (scratch / "note").write_text("for one of them\n")
    first, second = (
        msgspec.structs.replace(
            spec(folder, sandbox=None),
            name=f"acme/puppet#{number}",
            allow=Access(write=write, connect=(Endpoint("api.example.com", 443),)),
            limits=ResourceLimits(memory=256 << 20, processes=32),
        )
        for number, write in enumerate([(str(scratch),), ()])
    )
    assert await seen(host, first, scratch / "note") == ["for one of them\n"]
    assert await seen(host, second, scratch / "note") == ["No such file or directory"]
    assert [str(each) for each in host.plugins[first.name].confinement.access.connect] == [
        "api.example.com:443"
    ]


def test_an_author_tries_a_tool_from_the_command_line(place):
    folder = package(place)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    words = ["call", str(folder), "act", '{"word": "hi"}']
    ran = subprocess.run(
        [sys.executable, "-m", "plughost.cli", *words], env=environment, capture_output=True, timeout=60
    )
    assert ran.returncode == 0, ran.stderr
    answer = json.loads(ran.stdout)
    assert (answer["status"], answer["result"]["structured_output"]["body"]["input"]) == (
        "succeeded",
        {"word": "hi"},
    )
