"""Scratch folders whose plugin does what it likes with them."""

from __future__ import annotations

from pathlib import Path

import pytest

from plughost.guard.powers import Limits
from plughost.invocations.record import Ended
from plughost.invocations.scratch import TOO_MUCH, used
from tests.support import until


@pytest.mark.clause("VAI-43", "VAI-03")
async def test_what_is_written_beside_a_scratch_folder_counts_and_ends_the_process(bench) -> None:
    lab = bench(limits=Limits(scratch=1 << 20))
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
    assert [each.status for each in lab.kept.of(Ended)] == ["succeeded", "failed", "succeeded"]


@pytest.mark.clause("VAI-43", "VAI-03")
async def test_what_lies_too_deep_to_be_counted_is_too_much(bench) -> None:
    lab = bench()
    outcome = await lab.tool("writes", do="dig", deep=30)
    assert (outcome.status, outcome.reason) == ("failed", "budget_exceeded")
    await until(lambda: not list(lab.folder.glob("plughost-scratch-*/*/*")))


def test_what_goes_while_it_is_counted_is_nothing(tmp_path: Path) -> None:
    assert used(str(tmp_path / "gone")) == 0
    (tmp_path / "file").write_bytes(b"x")
    assert 0 < used(str(tmp_path)) < TOO_MUCH
