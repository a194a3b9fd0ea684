"""BackgroundTask: woken work, one run at a time, by a virtual clock."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from plughost.testing import VirtualClock
from plughost.vai.background import BackgroundTask
from tests.support import until


class Work:
    """Counts its runs; holds each until `gate` is set, then returns `delay` or raises `error`."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.gate = asyncio.Event()
        self.gate.set()
        self.runs = self.at_once = 0
        self.delay: float | None = None
        self.error: Exception | None = None
        self.task = BackgroundTask(self.run, self.clock, failure="it failed", retry_seconds=5.0)

    async def run(self) -> float | None:
        self.runs += 1
        self.at_once += 1
        assert self.at_once == 1
        try:
            await self.gate.wait()
            if self.error is not None:
                raise self.error
            return self.delay
        finally:
            self.at_once -= 1


async def settle() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


@pytest.fixture
async def work() -> Work:
    return Work()


@pytest.fixture
async def reported(work: Work) -> list[dict[str, Any]]:
    reports: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: reports.append(context))
    return reports


async def test_woken_during_a_run_it_runs_once_more(work: Work) -> None:
    work.gate.clear()
    work.task.wake()
    await settle()
    for _ in range(3):
        work.task.wake()
    assert work.runs == 1
    work.gate.set()
    await settle()
    assert work.runs == 2


async def test_it_runs_again_after_the_time_that_the_work_asks_for(work: Work) -> None:
    work.delay = 3.0
    work.task.wake()
    await settle()
    work.clock.advance(2.9)
    await settle()
    assert work.runs == 1
    work.clock.advance(0.2)
    await settle()
    assert work.runs == 2


async def test_work_that_is_due_already_runs_again_at_once(work: Work) -> None:
    work.delay = 0.0
    work.task.wake()
    await until(lambda: work.runs > 2)
    await work.task.close(cancel=True)


async def test_without_a_time_it_waits_until_it_is_woken(work: Work) -> None:
    work.task.wake()
    await settle()
    work.clock.advance(1000)
    await settle()
    assert work.runs == 1


async def test_an_early_wake_replaces_the_timer(work: Work) -> None:
    work.task.wake_in(3.0)
    work.task.wake()
    await settle()
    work.clock.advance(10)
    await settle()
    assert work.runs == 1


async def test_failed_work_is_reported_and_tried_later_even_if_woken_meanwhile(
    work: Work, reported: list[dict[str, Any]]
) -> None:
    work.error = ValueError("no")
    work.gate.clear()
    work.task.wake()
    await settle()
    work.task.wake()
    work.gate.set()
    await settle()
    assert work.runs == 1
    assert [(each["message"], each["exception"]) for each in reported] == [("it failed", work.error)]
    work.error = None
    work.clock.advance(5.1)
    await settle()
    assert work.runs == 2
    assert len(reported) == 1


async def test_close_waits_for_the_run_and_nothing_runs_afterwards(work: Work) -> None:
    work.gate.clear()
    work.delay = 1.0
    work.task.wake()
    await settle()
    closing = asyncio.create_task(work.task.close())
    work.task.wake()
    await settle()
    assert not closing.done()
    work.gate.set()
    await closing
    await work.task.close()
    work.task.wake()
    work.task.wake_in(0.5)
    work.clock.advance(10)
    await settle()
    assert work.runs == 1


async def test_close_can_cancel_the_run(work: Work, reported: list[dict[str, Any]]) -> None:
    work.gate.clear()
    work.task.wake()
    await settle()
    await work.task.close(cancel=True)
    assert work.at_once == 0
    assert reported == []
