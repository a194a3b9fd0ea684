"""Two hours of mixed load on a clock that a test drives: memory, descriptors, threads and zombies stay flat."""

from __future__ import annotations

import asyncio
import gc
import os
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import plughost
from plughost.testing import VirtualClock
from tests.faults.test_cancellation import parley
from tests.support import all_gone, puppet, until
from tests.support.scripts import RUNE

TWO_HOURS = 7200
ROUND = 6
"""Seconds that pass in one round of everything."""
SETTLED = 0.25
"""What grows in the first part of the time is caches and pools."""


class Reading:
    """What the host holds at this moment."""

    def __init__(self) -> None:
        gc.collect()
        self.memory = int(Path("/proc/self/statm").read_text().split()[1]) * 4096
        self.descriptors = len(os.listdir("/proc/self/fd"))
        self.threads = threading.active_count()
        self.tasks = len(asyncio.all_tasks())
        self.children = Counter(_state(pid) for pid in _children())


def _children() -> list[str]:
    return Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()


def _state(pid: str) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except OSError:
        return "gone"


class Load:
    """One round touches everything a plugin's life is made of."""

    def __init__(self, host: plughost.Host, clock: VirtualClock, mark: str) -> None:
        self._host = host
        self._clock = clock
        self._mark = mark
        self.outcomes: Counter[str] = Counter()

    async def _try(self, call: Any) -> Any:
        try:
            result = await asyncio.wait_for(call, 20)
        except plughost.PluginError as error:
            self.outcomes[error.code] += 1
            return None
        self.outcomes["answered"] += 1
        return result

    async def round(self, number: int) -> None:
        host = self._host
        steady, chatty = host.plugins["steady"], host.plugins["chatty"]
        with host.events(limit=100):
            await asyncio.gather(
                *(self._try(steady.call("echo", "x" * (n * 100))) for n in range(20)),
                *(self._try(chatty.call("echo", n)) for n in range(20)),
                self._try(steady.call("stderr", "words\n" * 100)),
                self._try(chatty.call("flood", 50)),
            )
            for n in range(20):
                chatty.notify("news", n)
            await self._late(chatty)
            await self._cancelled(chatty)
        await self._try(host.plugins["player"].call("echo", 1))
        if number % 5 == 0:
            await self._crash(chatty)
        if number % 7 == 0 or chatty.state == "Quarantined":
            await self._try(chatty.reload())
        if number % 11 == 0:
            await self._guest(number)
        self._clock.advance(ROUND)

    async def _late(self, plugin: plughost.Plugin) -> None:
        call = asyncio.create_task(self._try(plugin.call("silent", timeout=2)))
        await until(lambda: any(each["in_flight"] for each in plugin.inspect()["instances"]) or call.done())
        self._clock.advance(3)
        await call

    async def _cancelled(self, plugin: plughost.Plugin) -> None:
        call = asyncio.create_task(plugin.call("silent"))
        await asyncio.sleep(0)
        call.cancel()
        await asyncio.gather(call, return_exceptions=True)

    async def _crash(self, plugin: plughost.Plugin) -> None:
        await self._try(plugin.call("exit", 1))
        call = asyncio.create_task(self._try(plugin.call("echo", "after the crash")))
        # While it is being started the clock stands still: the machine takes its own time for that.
        await until(lambda: (plugin.state == "Backoff" and self._clock.advance(1)) or call.done())

    async def _guest(self, number: int) -> None:
        guest = await self._host.add(puppet(self._mark, name=f"guest{number}"))
        await self._try(guest.call("ping"))
        await self._host.remove(guest.name)


async def endure(seconds: int, mark: str) -> tuple[Reading, Reading, Counter[str]]:
    clock = VirtualClock()
    async with plughost.Host(clock=clock) as host:
        await host.add(puppet(mark, name="steady", max_in_flight=8))
        await host.add(parley(mark, name="chatty", idle_reap=60))
        await host.add(RUNE.spec([*RUNE.steps, *RUNE.rest], mark))
        load = Load(host, clock, mark)
        rounds = seconds // ROUND
        first: Reading | None = None
        for number in range(1, rounds + 1):
            await load.round(number)
            if first is None and number >= rounds * SETTLED:
                await _quiet(host)
                first = Reading()
        await _quiet(host)
        last = Reading()
        assert first is not None
        for plugin in host.plugins.values():
            plugin.kill()
    await all_gone(mark)
    return first, last, load.outcomes


async def _quiet(host: plughost.Host) -> None:
    """Between rounds: what was replaced is gone, what serves serves."""
    await host.plugins["chatty"].call("echo", 1)
    await until(lambda: all(len(plugin.inspect()["instances"]) <= 1 for plugin in host.plugins.values()))


def check(first: Reading, last: Reading, outcomes: Counter[str], growth: int) -> None:
    assert last.memory - first.memory < growth, f"{last.memory - first.memory} bytes more"
    assert (last.descriptors, last.threads, last.tasks) == (first.descriptors, first.threads, first.tasks)
    assert last.children["Z"] == 0
    assert last.children.total() == first.children.total()
    assert outcomes["answered"] > 40 * 10
    assert {"timeout", "crashed"} <= outcomes.keys() <= {"answered", "timeout", "crashed", "quarantined"}


async def test_a_few_minutes_of_everything_leave_nothing_behind(mark):
    check(*await endure(180, mark), growth=4 << 20)


@pytest.mark.soak
@pytest.mark.timeout(900)
async def test_two_hours_of_everything_leave_nothing_behind(mark):
    check(*await endure(TWO_HOURS, mark), growth=2 << 20)
