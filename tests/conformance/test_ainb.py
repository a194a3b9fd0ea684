"""ainb: every canary conforms, and of each that is broken just its own axis fails."""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

from plughost import config
from plughost.conformance.ainb import AXES
from plughost.conformance.runner import ConformanceReport, run_axes
from tests.support import ROOT
from tests.support.shared import computed_once

CANARIES = ROOT / "plugins/canaries/ainb"
BROKEN = ROOT / "plugins/canaries/broken/ainb"
NAMES = [axis.name for axis in AXES]
pytestmark = pytest.mark.timeout(
    300
)  # all are tried in the first test's setup; a busy machine takes its time
AT_A_TIME = 10

REASONS = {
    "manifest": "lacks abi_version, manifest",
    "framing": "is not JSON",
    "dispatch": "with the error -32600: it should be the error -32601",
    "capabilities": "instead of sending .*AssertionError",
    "render": "no two consecutive frames are the same",
    "pubsub": "its last words: a payload must be base64",
    "action": "its last words: this should have been done by now",
    "log": "the level 'warning', which hosts drop",
    "files": r"sessions/\.\./plugins/other/secret', which is not inside any of",
    "shutdown": "after plugin/shutdown it ended with 1, not 0",
    "recovery": "started again after a kill; its last words: it is running already",
    "quarantine": "reloaded after a quarantine: .*it has failed three times",
    "cli": "the answer to `cts-cli --help` is wrong",
    "chunks": "begins with chunk 1, not with 0",
}


def folders(root: Path) -> list[Path]:
    return sorted(manifest.parent for manifest in root.glob("*/manifest.toml"))


async def _examine(places: Iterable[Path]) -> dict[Path, ConformanceReport]:
    turn = asyncio.Semaphore(AT_A_TIME)

    async def one(place: Path) -> tuple[Path, ConformanceReport]:
        async with turn:
            return place, await run_axes(config.load_folder(place))

    return dict(await asyncio.gather(*map(one, places)))


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> dict[Path, ConformanceReport]:
    """All at once: most of the time is spent waiting for plugins to start."""
    places = [*folders(CANARIES), *folders(BROKEN), ROOT / "plugins/echo-ainb"]
    return computed_once(tmp_path_factory, "conformance-ainb", lambda: asyncio.run(_examine(places)))


@pytest.mark.clause("AINB-70")
def test_there_are_fourteen_axes_and_each_has_its_canary_and_a_broken_one():
    assert len(NAMES) == 14
    assert {place.name for place in folders(CANARIES)} == {*NAMES, "partner"}
    assert {place.name for place in folders(BROKEN)} == {*NAMES}


@pytest.mark.clause("AINB-70")
@pytest.mark.parametrize("name", [*NAMES, "partner"])
def test_a_canary_conforms_and_is_asked_for_its_own_axis(reports, name):
    report = reports[CANARIES / name]
    verdicts = {verdict.axis: verdict for verdict in report.verdicts}
    assert report.conforms, [verdict for verdict in report.verdicts if verdict.outcome == "failed"]
    assert name == "partner" or verdicts[name].outcome == "passed"


@pytest.mark.clause("AINB-70")
@pytest.mark.parametrize("name", NAMES)
def test_of_a_broken_canary_just_its_own_axis_fails_and_says_why(reports, name):
    failed = [verdict for verdict in reports[BROKEN / name].verdicts if verdict.outcome == "failed"]
    assert [verdict.axis for verdict in failed] == [name], failed
    assert re.search(REASONS[name], failed[0].reason, re.S), failed[0].reason


@pytest.mark.clause("AINB-71", "AINB-75")
def test_a_plugin_is_asked_for_what_its_manifest_implies_and_the_rest_is_skipped_by_name(reports):
    report = reports[ROOT / "plugins/echo-ainb"]
    assert report.conforms
    skipped = {verdict.axis: verdict.reason for verdict in report.verdicts if verdict.outcome == "skipped"}
    assert set(skipped) == {"action", "files", "chunks"}
    assert skipped["chunks"] == "its manifest provides no snapshots"
    always = {
        verdict.axis for verdict in reports[CANARIES / "manifest"].verdicts if verdict.outcome == "passed"
    }
    assert always == {
        "manifest",
        "framing",
        "dispatch",
        "capabilities",
        "log",
        "shutdown",
        "recovery",
        "quarantine",
    }


@pytest.fixture
def wild(tmp_path):
    """A plugin that behaves like the original ones."""
    folder = tmp_path / "wild"
    folder.mkdir()
    manifest = (
        '[plugin]\nname = "wild"\nversion = "1.0.0"\nabi_version = 2\n[capabilities]\nevent_bus = true\n'
    )
    (folder / "manifest.toml").write_text(manifest)
    source = ROOT / "tests/plugins/wild_ainb.py"
    (folder / "wild").write_text(f"#!{sys.executable} -ISE\n{source.read_text()}")
    (folder / "wild").chmod(0o755)
    return folder


async def test_a_plugin_may_refuse_init_when_what_it_declares_is_withheld(wild):
    report = await run_axes(config.load_folder(wild), only=["capabilities"])
    assert [(verdict.outcome, verdict.reason) for verdict in report.verdicts] == [("passed", "")]
    (wild / "manifest.toml").write_text((wild / "manifest.toml").read_text().replace("true", "false"))
    report = await run_axes(config.load_folder(wild), only=["capabilities"])
    assert not report.conforms, "nothing that it declares was withheld"


async def test_name_and_version_alone_are_a_warning_when_it_is_lenient(wild):
    reason = "its answer to plugin/init lacks abi_version, manifest"
    for lenient, outcome in ((False, "failed"), (True, "warned")):
        report = await run_axes(config.load_folder(wild), only=["manifest"], lenient=lenient)
        (verdict,) = report.verdicts
        assert (verdict.outcome, report.conforms) == (outcome, lenient)
        assert verdict.reason.startswith(reason)
    report = await run_axes(config.load_folder(BROKEN / "manifest"), lenient=True)
    assert report.conforms
    other = (wild / "wild").read_text().replace('"version": "1.0.0"', '"version": "2.0.0"')
    (wild / "wild").write_text(other)
    report = await run_axes(config.load_folder(wild), only=["manifest"], lenient=True)
    assert "its version is '2.0.0'" in report.verdicts[0].reason, "no other fault is forgiven"
