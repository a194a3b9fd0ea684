"""How fast deliveries that wait are made by a real hook: a package in a warm process, through the runtime."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path
from time import perf_counter

from benchmarks.backlog import BINDINGS
from benchmarks.contenders.invoking import Shelf, write_package
from benchmarks.databases import DATABASES, Place, databases
from benchmarks.effort import Effort
from benchmarks.filling import acked, add_waiting, bindings
from benchmarks.sheet import Sheet
from benchmarks.turns import swapped
from plughost.vai.invocations.invocation import Invocation, OnEvent
from plughost.vai.invocations.outcome import Outcome
from plughost.vai.runtime import VaiRuntime

NAME = "draining deliveries, a real hook"


class _Counting(VaiRuntime):
    """Knows when it has made as many invocations as it should."""

    def expect(self, count: int) -> asyncio.Future[None]:
        self._left, self._over = count, asyncio.get_running_loop().create_future()
        return self._over

    async def invoke(self, invocation: Invocation, on_event: OnEvent | None = None) -> Outcome:
        outcome = await super().invoke(invocation, on_event)
        self._left -= 1
        if not self._over.done() and (self._left == 0 or not outcome.ok):
            if outcome.ok:
                self._over.set_result(None)
            else:
                self._over.set_exception(RuntimeError(str(outcome)))
        return outcome


def measure(effort: Effort, peers: Path | None) -> list[Sheet]:
    note = (
        f"{effort.hooked:,} deliveries of {BINDINGS} bindings wait; the hook is in C, "
        "strict, a warm process for each binding; each attempt is an invocation with its record; not pinned"
    )
    sheet = Sheet(NAME, note, {"rate": "deliveries/s"}, DATABASES)
    with databases("hooked") as new, tempfile.TemporaryDirectory(prefix="plughost-bench-") as made:
        folder = Path(made)
        folder.chmod(0o755)  # confined processes read the package
        write_package(folder / "package")
        for name in swapped(NAME, DATABASES, effort.draining_rounds):
            sheet.add(name, rate=asyncio.run(_drain(new[name](), folder / "package", effort.hooked)))
    return [sheet]


async def _drain(place: Place, package: Path, count: int) -> float:
    bound = bindings(BINDINGS)
    async with _Counting(place.folder, Shelf(package), bound, database=place.url) as runtime:
        over = runtime.expect(BINDINGS)
        await add_waiting(runtime.database, BINDINGS, BINDINGS)
        runtime.deliveries.refresh()
        await over  # the processes are warm
        over = runtime.expect(count)
        await add_waiting(runtime.database, count, BINDINGS)
        began = perf_counter()
        runtime.deliveries.refresh()
        await over
        await runtime.deliveries.close()  # with the last results
        took = perf_counter() - began
    assert await acked(place) == BINDINGS + count
    return count / took
