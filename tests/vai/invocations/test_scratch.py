"""Scratch folders whose plugin does what it likes with them."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import pytest

from plughost.errors import Crashed, LaunchFailed
from plughost.permissions.access import ResourceLimits
from plughost.vai.invocations.outcome import Outcome, verdict
from plughost.vai.invocations.scratch import (
    MAX_INTERVAL,
    MIN_INTERVAL,
    TOO_MUCH,
    Scratch,
    disk_usage,
    measure_interval,
)
from plughost.vai.records.record import Finished
from tests.support import until
from tests.vai.invocations.conftest import Bench


@pytest.mark.clause("VAI-43", "VAI-03")
async def test_what_is_written_beside_a_scratch_folder_counts_and_ends_the_process(bench) -> None:
    lab = bench(limits=ResourceLimits(scratch=1 << 20))
    assert (await lab.tool("writes", do="strew", name="small", bytes=1)).ok
    await until(lambda: not len(lab.invoker.pool))
    assert not list(lab.folder.glob("plughost-scratch-*/*")), "it went with its process"
    outcome = await lab.tool("writes", do="strew", name="large", bytes=2 << 20)
    assert (outcome.status, outcome.reason) == ("failed", "budget_exceeded")


@pytest.mark.clause("VAI-39")
async def test_a_process_that_removed_its_root_fails_one_invocation_and_is_replaced(bench) -> None:
    lab = bench()
    assert (await lab.tool("writes", do="remove root")).ok
    outcome = await lab.tool("writes", do="leave")
    assert (outcome.status, outcome.reason) == ("failed", "launch_failed")
    assert "scratch" in outcome.message
    assert (await lab.tool("writes", do="leave")).ok
    assert [each.status for each in lab.kept.of(Finished)] == ["succeeded", "failed", "succeeded"]


@pytest.mark.clause("VAI-43", "VAI-03")
async def test_what_lies_too_deep_to_be_counted_is_too_much(bench) -> None:
    lab = bench()
    outcome = await lab.tool("writes", do="dig", deep=30)
    assert (outcome.status, outcome.reason) == ("failed", "budget_exceeded")
    await until(lambda: not list(lab.folder.glob("plughost-scratch-*/*/*")))


@pytest.mark.clause("VAI-93")
async def test_a_link_that_is_faster_than_its_owner_is_not_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A root host gives the new folder to the plugin's user: what lies there by then, if it may swap it."""
    victim = tmp_path / "victim"
    victim.mkdir()
    made = os.mkdir

    def swapped(path: str, mode: int) -> None:
        made(path, mode)
        os.rename(path, f"{path}.away")
        os.symlink(victim, path)

    scratch = Scratch(str(tmp_path))
    root = scratch.root()
    made(root, 0o700)
    if os.geteuid() == 0:
        os.chown(root, 4711, 4711)
    monkeypatch.setattr(os, "mkdir", swapped)
    with pytest.raises(LaunchFailed, match="its scratch folder cannot be created"):
        scratch.make(root, "inv_1")
    monkeypatch.undo()
    assert victim.stat().st_uid == os.geteuid()
    await scratch.close()


async def written(lab: Bench, monkeypatch, **asked: object) -> tuple[Outcome, int]:
    """How it ends, and what was in its folder when its process could write no more."""
    found: list[int] = []
    remove = lab.invoker._executor.scratch.remove

    async def counted(path: str) -> None:
        found.append(disk_usage(path))
        await remove(path)

    monkeypatch.setattr(lab.invoker._executor.scratch, "remove", counted)
    outcome = await lab.tool("writes", **asked)
    return outcome, found[0]


@pytest.mark.clause("VAI-43", "VAI-03")
async def test_whoever_writes_as_fast_as_it_can_is_ended_soon(bench, monkeypatch) -> None:
    """And not asked: it would have the time of its grace to fill the disk."""
    lab = bench(limits=ResourceLimits(scratch=16 << 20))
    neighbour = asyncio.create_task(lab.tool("writes", do="wait"))
    await until(lambda: len(lab.invoker.running) == 1 and len(lab.invoker.pool))
    outcome, most = await written(lab, monkeypatch, do="flood", mib=8 << 10)
    assert (outcome.status, outcome.reason) == ("failed", "budget_exceeded")
    assert most < 4 << 30, "half of what it wanted, however slow this machine looks"
    lab.invoker.cancel(lab.invoker.running[0], "it was not disturbed")
    assert (await neighbour).reason == "it was not disturbed"
    assert (await lab.tool("writes", do="leave")).ok


@pytest.mark.clause("VAI-43", "VAI-03")
@pytest.mark.usefixtures("strict")
async def test_one_file_never_gets_past_the_limit(bench, monkeypatch) -> None:
    """The kernel holds it to that, so nobody needs to look in time."""
    monkeypatch.setattr("plughost.vai.invocations.scratch.MIN_INTERVAL", MAX_INTERVAL)
    lab = bench(sandbox="strict", limits=ResourceLimits(scratch=2 << 20))
    outcome, most = await written(lab, monkeypatch, do="fill", mib=64)
    assert (outcome.status, outcome.reason) == ("failed", "budget_exceeded")
    assert 2 << 20 < most <= (2 << 20) + 8192
    for status in (-signal.SIGXFSZ, 128 + signal.SIGXFSZ):
        died = verdict(Crashed("it ended", exit_status=status), retryable=True)
        assert (died.status, died.reason, died.retry) == ("failed", "budget_exceeded", False), "as C ends"


async def test_looking_at_many_folders_is_not_more_work(tmp_path: Path) -> None:
    scratch = Scratch(str(tmp_path))
    root = scratch.root()
    os.mkdir(root)
    folders = [scratch.make(root, f"inv_{number}") for number in range(50)]
    _, crowd = min((scratch.measure(folders[0]) for _ in range(20)), key=lambda seen: seen[1])
    for folder in folders[1:]:
        await scratch.remove(folder)
    _, alone = min((scratch.measure(folders[0]) for _ in range(20)), key=lambda seen: seen[1])
    assert crowd > 10 * alone
    await scratch.close()


def test_the_fuller_a_folder_the_sooner_the_next_look() -> None:
    pauses = [measure_interval(left, 0.0001) for left in (1 << 40, 256 << 20, 64 << 20, 1 << 20, 0)]
    assert pauses == [MAX_INTERVAL, 0.25, 0.0625, MIN_INTERVAL, MIN_INTERVAL]
    assert measure_interval(1 << 20, 0.01) == pytest.approx(0.2), "looking takes a small part of the time"
    assert measure_interval(1 << 20, 10.0) == MAX_INTERVAL


def test_what_goes_while_it_is_counted_is_nothing(tmp_path: Path) -> None:
    assert disk_usage(str(tmp_path / "gone")) == 0
    (tmp_path / "file").write_bytes(b"x")
    assert 0 < disk_usage(str(tmp_path)) < TOO_MUCH
