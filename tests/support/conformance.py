"""Plugins put through their axes, several at a time."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import msgspec
import pytest

from plughost import PluginSpec
from plughost.conformance.plugin_under_test import Sample
from plughost.conformance.runner import ConformanceReport, run_axes
from tests.support import ROOT, vouched

CANARIES = ROOT / "plugins/canaries"
ECHO = Sample("echo", {"text": "hi"})
AT_A_TIME = 4


async def reports(folders: list[Path], sample: Sample | None = ECHO) -> dict[str, ConformanceReport]:
    """What becomes of each, by its folder's name."""
    room = asyncio.Semaphore(AT_A_TIME)

    async def report(folder: Path) -> ConformanceReport:
        async with room:
            return await run_axes(operated(folder), sample=sample)

    async with asyncio.TaskGroup() as group:
        tasks = {folder.name: group.create_task(report(folder)) for folder in folders}
    return {name: task.result() for name, task in tasks.items()}


def failed(report: ConformanceReport) -> dict[str, str]:
    """Axis → reason."""
    return {verdict.axis: verdict.reason for verdict in report.verdicts if verdict.outcome == "failed"}


def folders(where: Path, axes: list[str]) -> list[Path]:
    """A canary for each axis, and no others."""
    found = sorted(path.parent for path in where.glob("*/plughost.toml"))
    assert [path.name for path in found] == sorted(axes)
    return found


def examples(pattern: str) -> list[Path]:
    """The example plugins that can run here: all of them in CI."""
    found = sorted(path.parent for path in ROOT.glob(f"plugins/{pattern}/plughost.toml"))
    able = [folder for folder in found if _runs(folder)]
    assert able == found or not os.environ.get("CI"), "an example was not built"
    if not able:
        pytest.skip("no example was built")
    return able


def operated(folder: Path) -> PluginSpec:
    """A canary says itself what its operator grants; an example cannot, so that is here."""
    spec = vouched(folder)
    if (
        spec.contract == "rune"
        and not spec.grants
        and folder.parent == ROOT / "plugins"
        and folder.name[-2:] != "-c"
    ):
        return msgspec.structs.replace(spec, grants=["tool.execute"])
    return spec


def _runs(folder: Path) -> bool:
    from shutil import which

    program = vouched(folder).command[0]
    return bool(which(program, path=None) if "/" not in program else (folder / program).exists())
