"""Nothing runs with less confinement than was asked for, whoever keeps it from being confined."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

import plughost
import plughost.sync
from plughost import config
from plughost.conformance.plugin_under_test import PluginUnderTest
from plughost.conformance.runner import run_axes
from plughost.engine.io.tap import Origin
from plughost.permissions.access import ResourceLimits
from plughost.spec import PluginSpec
from plughost.testing import Traffic, play_host
from tests.support import ROOT, until
from tests.support.confinable import PATH, needs, open_folder

SOURCES = ROOT / "src/plughost"
CLI = [sys.executable, "-m", "plughost.cli"]

PROVOCATIONS = {
    "variables for env": "#!/usr/bin/env -S A=1 python3",
    "options of env": "#!/usr/bin/env -S -u HOME python3",
    "a private interpreter": "#!{private} python3",
}
"""First lines of a plugin's program. Without a sandbox, the kernel and `env` run each of them."""

KAGED = """\
name: sly
version: 1.0.0
kaged_api: 1
description: It would rather not be confined
license: Apache-2.0
command: [./sly]
methods: [sly.echo]
capabilities: ["net:[]"]
"""
AINB = """\
[plugin]
name = "sly"
version = "1.0.0"
abi_version = 2
[provides]
cli_namespaces = ["sly"]
screens = ["sly"]
"""
MCPTEST = """\
[plugins.sly]
contract = "mcptest"
command = ["./sly"]
"""
FILES = {KAGED: "manifest.yaml", AINB: "manifest.toml", MCPTEST: "plughost.toml"}

COMMANDS = {
    "call": (MCPTEST, "call --sandbox strict FOLDER ping {} --timeout 5"),
    "call, as its contract has it": (KAGED, "call FOLDER sly.echo {} --timeout 5"),
    "conform": (MCPTEST, "conform --sandbox strict FOLDER --axis ids --timeout 5"),
    "conform, as its contract has it": (KAGED, "conform FOLDER --axis handshake --timeout 5"),
    "replay": (MCPTEST, "replay TRAFFIC --as-host --sandbox strict FOLDER --timeout 5"),
    "x": (AINB, "x --sandbox strict FOLDER sly"),
    "screen": (AINB, "screen --sandbox strict FOLDER --svg TRAFFIC.svg"),
}
RECORDED = Traffic(Origin("sly", "mcptest", "Lines"))


@pytest.fixture
def place() -> Iterator[Path]:
    needs("strict")
    with open_folder() as place, pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", PATH)
        os.chmod(place, 0o777)
        yield place


def sly(place: Path, manifest: str, first: str) -> tuple[Path, Path]:
    """A plugin's folder, and the file that its program leaves behind wherever it runs unconfined."""
    folder, mark, private = place / "sly", place / "unconfined", place / "private"
    private.symlink_to("/usr/bin/env")
    folder.mkdir()
    (folder / FILES[manifest]).write_text(manifest)
    program = folder / "sly"
    program.write_text(f"{first.format(private=private)}\nopen({str(mark)!r}, 'w').close()\n")
    program.chmod(0o755)
    return folder, mark


@pytest.mark.parametrize("first", PROVOCATIONS.values(), ids=PROVOCATIONS)
def test_the_provocations_run_without_a_sandbox(place, first):
    folder, mark = sly(place, MCPTEST, first)
    subprocess.run([folder / "sly"], timeout=60, check=True)
    assert mark.exists()


@pytest.mark.parametrize("command", COMMANDS)
def test_no_command_runs_a_plugin_with_less_than_was_asked_for(place, command):
    manifest, words = COMMANDS[command]
    folder, mark = sly(place, manifest, PROVOCATIONS["options of env"])
    RECORDED.save(place / "traffic")
    meant = {"FOLDER": str(folder), "TRAFFIC": str(place / "traffic")}
    said = [meant.get(word, word) for word in words.split()]
    ran = subprocess.run([*CLI, *said], capture_output=True, text=True, timeout=60)
    assert not mark.exists(), (ran.stdout, ran.stderr)
    assert ran.returncode != 0
    assert "the first line of" in ran.stderr + ran.stdout, ran.stderr


async def _examined(spec: PluginSpec) -> None:
    await run_axes(spec, only=["ids"], timeout=2)


async def _replayed(spec: PluginSpec) -> None:
    await play_host(RECORDED, spec, patience=2)


async def _hosted(spec: PluginSpec) -> None:
    async with plughost.Host() as host:
        await (await host.add(spec)).call("ping", {}, timeout=2)


async def _on_the_wire(spec: PluginSpec) -> None:
    async with PluginUnderTest(spec).wire():
        pass


WAYS = {"conform": _examined, "replay": _replayed, "host": _hosted, "raw process": _on_the_wire}


@pytest.mark.parametrize("first", PROVOCATIONS.values(), ids=PROVOCATIONS)
@pytest.mark.parametrize("way", WAYS)
async def test_no_way_in_runs_a_plugin_with_less_than_was_asked_for(place, way, first):
    folder, mark = sly(place, MCPTEST, first)
    spec = msgspec.structs.replace(config.load_folder(folder), sandbox="strict")
    try:
        await WAYS[way](spec)
    except plughost.PluginError:
        pass
    assert not mark.exists()


async def test_a_contract_that_confines_its_plugins_is_obeyed_by_conform(place):
    folder, mark = sly(place, KAGED, PROVOCATIONS["options of env"])
    with pytest.raises(plughost.LaunchFailed, match="the first line of"):
        await run_axes(config.load_folder(folder), only=["handshake"], timeout=2)
    assert not mark.exists()


@pytest.mark.parametrize("way", ["raw process", "replay"])
async def test_the_sum_of_memory_is_held_outside_of_a_host_too(place, way):
    """Where no control group counts it, somebody has to look."""
    script = "import os, time\nfor _ in range(3):\n    if not os.fork(): break\n"
    script += "held = bytearray(100 << 20)\nheld[::4096] = b'x' * len(held[::4096])\ntime.sleep(60)\n"
    spec = PluginSpec(
        contract="mcptest",
        name="hoarder",
        command=["python3", "-I", "-S", "-c", script],
        sandbox="strict",
        limits=ResourceLimits(memory=256 << 20),
    )
    if way == "replay":
        said = Traffic(Origin("hoarder", "mcptest", "Lines"))
        said.add("in", b"{}\n")
        assert "more than the limit of 256 MiB" in (await play_host(said, spec, patience=30) or "")
        return
    async with PluginUnderTest(spec).wire() as wire:
        await until(lambda: not wire._process.alive)
        assert "more than the limit of 256 MiB" in wire.last_words()


CALLS = {
    "Launch": {
        "engine/launcher/selftest.py",
        "sandbox/planner.py",
        "sandbox/manager.py",
        "conformance/host_process.py",
    },
    "Process": {
        "engine/launcher/selftest.py",
        "engine/io/process_link.py",
        "sandbox/unhosted.py",
        "conformance/host_process.py",
    },
    "unconfined": {"sandbox/planner.py", "sandbox/manager.py"},
}
"""Who may decide how something is run, and who may run it: the launcher's own probe and another host on
trial (`conform --host`), which the operator names, are not plugins. A pool has a `Process` of its own, over a
plugin of a host."""


@pytest.mark.parametrize("name", CALLS)
def test_how_a_process_is_run_is_decided_in_one_place(name):
    found = {
        str(path.relative_to(SOURCES))
        for path in SOURCES.rglob("*.py")
        if "templates" not in path.parts and (name, path) != ("Process", SOURCES / "vai/invocations/pool.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == name
    }
    assert found == CALLS[name]
