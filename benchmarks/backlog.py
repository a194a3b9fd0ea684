"""Deliveries that wait, handed to a hook that does nothing: by this process, or by some of their own."""

from __future__ import annotations

import asyncio
import os
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from time import perf_counter

from benchmarks import filling
from benchmarks.databases import Place
from benchmarks.paths import ROOT
from plughost.clock import best_clock
from plughost.vai.database.database import Database
from plughost.vai.state.deliveries import Deliveries
from plughost.vai.state.delivery_table import Delivery
from plughost.vai.state.leases import ProcessLease

BINDINGS = 4
PROGRAM = (sys.executable, "-m", "benchmarks.fresh.draining")


@asynccontextmanager
async def delivering(database: Database, on_delivered: Callable[[], object]) -> AsyncIterator[Deliveries]:
    """Deliveries of this process, which are to be started. Their results are stored when this is left."""

    async def nothing(delivery: Delivery) -> tuple[str, str | None]:
        on_delivered()
        return "succeeded", None

    clock = best_clock(asyncio.get_running_loop())
    lease = ProcessLease(database, f"bench-{os.getpid()}", clock)
    deliveries = Deliveries(database, lease, nothing, clock, bindings=filling.bindings(BINDINGS))
    yield deliveries
    await deliveries.close()
    await lease.close()
    clock.close()


async def drain(place: Place, count: int, processes: int = 1) -> float:
    """Deliveries a second, of as many as wait there, by so many processes together."""
    workers = [await _start(place) for _ in range(processes)]
    delivered = [0] * processes

    async def follow(number: int, worker: Process) -> None:
        while (line := await _line(worker)) != b"stored\n":
            delivered[number] = int(line)
            if sum(delivered) == count:
                for each in workers:
                    assert each.stdin is not None
                    each.stdin.close()  # they store their last results, and end

    began = perf_counter()
    for worker in workers:
        assert worker.stdin is not None
        worker.stdin.write(b"\n")
    await asyncio.gather(*(follow(number, worker) for number, worker in enumerate(workers)))
    took = perf_counter() - began
    for worker in workers:
        assert await worker.wait() == 0
    assert await filling.acked(place) == count
    return count / took


async def _start(place: Place) -> Process:
    """A process that has the database open, and waits for a word."""
    words = (place.folder, *([place.url] if place.url else []))
    worker = await asyncio.create_subprocess_exec(*PROGRAM, *words, stdin=PIPE, stdout=PIPE, cwd=ROOT)
    assert await _line(worker) == b"ready\n"
    return worker


async def _line(worker: Process) -> bytes:
    assert worker.stdout is not None
    return await worker.stdout.readline()
