"""The examples keep their contracts inside a sandbox, too: what is on trial is the confined plugin."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from plughost import config
from plughost.conformance.plugin_under_test import PluginUnderTest
from plughost.conformance.runner import run_axes
from plughost.permissions.access import Access
from tests.sandbox.conftest import folder, strict  # noqa: F401
from tests.support import ROOT
from tests.support.conformance import ECHO, examples, failed

pytestmark = pytest.mark.usefixtures("strict")


@pytest.fixture
def examples_in_reach(folder: Path, monkeypatch) -> list[Path]:  # noqa: F811
    """Copies that every user can reach, run by what every user can run."""
    monkeypatch.setenv("PATH", "/usr/local/bin:/usr/bin:/bin")
    found = [*examples("echo-mcptest*"), *examples("echo-rune*")]
    shutil.copy(ROOT / "plugins/json_text.sh", folder)
    return [Path(shutil.copytree(each, folder / each.name)) for each in found]


@pytest.mark.parametrize("sandbox", ["strict", "landlock"])
async def test_every_example_conforms_in_a_sandbox(examples_in_reach, sandbox):
    for place in examples_in_reach:
        spec = msgspec.structs.replace(
            config.load_folder(place),
            sandbox=sandbox,
            grants=["tool.execute"]
            if place.name.startswith("echo-rune") and place.name != "echo-rune-c"
            else (),
            allow=Access(read=(str(place.parent / "json_text.sh"),)),
        )
        axes = ["responses", "shutdown"] if spec.contract == "mcptest" else ["handshake", "exit"]
        report = await run_axes(spec, only=axes, sample=ECHO)
        assert failed(report) == {}, place.name


async def test_a_process_on_trial_is_confined(examples_in_reach):
    spec = msgspec.structs.replace(config.load_folder(examples_in_reach[0]), sandbox="strict")
    async with PluginUnderTest(spec).wire() as wire:
        confined_by = wire._process.confined_by
    assert "seccomp" in confined_by


def test_the_command_takes_a_sandbox(examples_in_reach):
    place = next(each for each in examples_in_reach if each.name == "echo-mcptest-sh")
    beside = place.parent / "json_text.sh"
    words = ["conform", str(place), "--sandbox", "strict", "--allow", f"read={beside}", "--axis", "ids"]
    ran = subprocess.run(
        [sys.executable, "-m", "plughost.cli", *words], capture_output=True, text=True, timeout=60
    )
    assert ran.stdout.splitlines() == ["ok    ids", "echo-sh (mcptest): 1 passed"], ran.stderr
