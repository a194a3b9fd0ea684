"""kaged: every canary conforms, and of each that is broken just its own axis fails."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from plughost import config
from plughost.conformance.kaged import AXES, capabilities
from plughost.conformance.kaged.protocol import CONTEXT
from plughost.conformance.kaged.stub_host import open_stub
from plughost.conformance.plugin_under_test import PluginUnderTest, Sample
from plughost.conformance.runner import ConformanceReport, run_axes
from plughost.errors import SandboxUnavailable
from plughost.sandbox.mechanisms.features import kernel_features
from tests.support import ROOT
from tests.support.confinable import PATH, needs, open_folder
from tests.support.conformance import CANARIES, failed
from tests.support.shared import computed_once

NAMES = [axis.name for axis in AXES]
EXAMPLES = ["echo-kaged", "echo-kaged-node"]
KEEP = Sample("echo.keep", {"key": "k", "value": 1})
pytestmark = pytest.mark.timeout(
    300
)  # all are tried in the first test's setup; a busy machine takes its time
AT_A_TIME = 8

REASONS = {
    "handshake": "refused because of its capabilities_used: 'read:fs:/etc' is not granted",
    "methods": "canary.echo works, but with a _context it is answered with -32602",
    "health": "health.check was not answered within 5 s",
    "shutdown": "after shutdown and the end of its stdin it ended with 1, not 0",
    "size": "with a message of 4000000 bytes; its last words: a line is longer than 65536 bytes",
    "rate": "canary.echo made it send 5000 notifications in",
    "notifications": "it sent the notification 'canary.begun': its manifest does not declare that",
    "storage": "it closed its stdout instead of sending the response to canary.echo.*KeyError: 'result'",
    "capabilities": "it asks for something that its manifest does not declare: connect tracker.example.net:443",
}


def _confined(name: str) -> None:
    if name == "capabilities":
        needs("strict")


@pytest.fixture(scope="module")
def place() -> Iterator[Path]:
    """All of them where every user can reach them: of a root host, confined plugins are others."""
    with open_folder() as place, pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", PATH)
        shutil.copytree(CANARIES / "kaged", place / "good")
        shutil.copytree(CANARIES / "broken/kaged", place / "broken")
        for name in EXAMPLES:
            shutil.copytree(ROOT / "plugins" / name, place / name)
        yield place


@pytest.fixture(scope="module")
def reports(place: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, ConformanceReport]:
    """By their folders. All at once: most of the time is spent waiting."""
    folders = [path.parent for path in place.glob("**/manifest.yaml")]
    turn = asyncio.Semaphore(AT_A_TIME)

    async def one(folder: Path) -> tuple[str, ConformanceReport]:
        async with turn:
            sample = KEEP if folder.name in EXAMPLES else None
            return str(folder.relative_to(place)), await run_axes(config.load_folder(folder), sample=sample)

    async def every() -> dict[str, ConformanceReport]:
        return dict(await asyncio.gather(*(one(path) for path in folders if _runs(path))))

    return computed_once(tmp_path_factory, "conformance-kaged", lambda: asyncio.run(every()))


def _runs(folder: Path) -> bool:
    return bool(shutil.which(config.load_folder(folder).command[0]))


def test_each_axis_has_its_canary_and_a_broken_one():
    for place in (CANARIES / "kaged", CANARIES / "broken/kaged"):
        assert sorted(path.parent.name for path in place.glob("*/manifest.yaml")) == sorted(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_a_canary_conforms_and_is_asked_for_its_own_axis(reports, name):
    _confined(name)
    report = reports[f"good/{name}"]
    assert failed(report) == {}
    assert {verdict.axis: verdict.outcome for verdict in report.verdicts}[name] == "passed"


@pytest.mark.parametrize("name", NAMES)
def test_of_a_broken_canary_just_its_own_axis_fails_and_says_why(reports, name):
    _confined(name)
    report = reports[f"broken/{name}"]
    assert list(failed(report)) == [name], failed(report)
    assert re.search(REASONS[name], failed(report)[name], re.S), failed(report)[name]


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_reference_plugins_conform(reports, name):
    needs("strict")
    if name not in reports and not os.environ.get("CI"):
        pytest.skip(f"what runs {name} is not installed")
    assert failed(reports[name]) == {}
    assert reports[name].count("passed") == len(AXES)


def test_the_context_of_its_calls_is_one_that_plugins_in_the_wild_read():
    assert re.fullmatch(r"primary(\.subagents\.[^.]+)*", CONTEXT["agent_path"])


async def test_a_sample_must_be_of_a_declared_method(place):
    spec = config.load_folder(place / "good/methods")
    report = await run_axes(spec, sample=Sample("canary-methods.ohce", {}), only=["methods"])
    assert failed(report)["methods"].startswith("the sample calls 'canary-methods.ohce', which its")


async def test_its_processes_are_confined_as_its_contract_has_it(place, reports):
    needs("strict")
    assert {report.sandbox for report in reports.values()} == {"strict"}
    async with open_stub(PluginUnderTest(config.load_folder(place / "good/methods"))) as host:
        assert "seccomp" in host.wire._process.confined_by


async def test_one_that_cannot_be_confined_is_tried_unconfined_only_on_the_operators_word(place, monkeypatch):
    monkeypatch.setattr(
        "plughost.sandbox.mechanisms.features.kernel_features",
        lambda: msgspec.structs.replace(kernel_features(), bubblewrap=None),
    )
    spec = config.load_folder(place / "good/methods")
    with pytest.raises(SandboxUnavailable, match="bubblewrap is not installed"):
        await run_axes(spec, only=["methods"])
    report = await run_axes(msgspec.structs.replace(spec, sandbox="none"), only=["methods"])
    assert (report.sandbox, failed(report)) == ("none", {})


async def test_without_a_sandbox_the_canary_gets_at_all_that_it_tries(place, monkeypatch):
    monkeypatch.setattr(capabilities, "CLASS", "none")
    report = await run_axes(config.load_folder(place / "good/capabilities"), only=["capabilities"])
    told = failed(report)["capabilities"]
    for what in ("read a file", "see a folder", "write a file", "run a program", "connect"):
        assert what in told


@pytest.mark.clause("KAGED-23")
@pytest.mark.parametrize("name", ["echo-kaged", "echo-kaged-node", "notes", "notes-ts"])
async def test_every_example_answers_ping(name, tmp_path):
    """The only health method that published plugins know, and so perhaps the only one of a host of theirs."""
    spec = config.load_folder(ROOT / "plugins" / name)
    options = {"data_root": str(tmp_path)}
    subject = PluginUnderTest(
        msgspec.structs.replace(spec, sandbox="none", grants=("declared",), options=options)
    )
    async with open_stub(subject) as host:
        await host.begin()
        assert (await host.ask("ping", {}))["result"] == {"status": "ok"}
