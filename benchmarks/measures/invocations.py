"""What an invocation adds to a call: permissions, schemas, context, a record that outlives the host."""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
from pathlib import Path
from time import perf_counter

from benchmarks import payload, roster
from benchmarks.contenders.apart import Apart
from benchmarks.contenders.contender import Contender
from benchmarks.contenders.invoking import Invoking, write_package
from benchmarks.contenders.raw_pipe import RawPipe
from benchmarks.contenders.vai_call import VaiCall
from benchmarks.effort import Effort
from benchmarks.paths import C_ECHO, PYTHON_ECHO
from benchmarks.pinning import pinned_to, two_sides
from benchmarks.roster import YARDSTICK
from benchmarks.sheet import Sheet
from benchmarks.stats import quantile
from benchmarks.turns import opened, swapped, turns
from plughost.vai.invocations.options import InvokerOptions

WARM = "invocation, warm"
COLD = "invocation, cold"
SUSTAINED = "invocation, sustained"
RAW_C = f"{roster.RAW_C}, the same program"
BARE = "vai call ↔ C, nothing around it"
INLINE = "inline ↔ C, shared process"
UVLOOP = "inline ↔ C, uvloop"
BOUND = "isolated ↔ C, reuse = binding"
EACH = "isolated, reuse = invocation"
SIZE = 100
LONGER = 20
"""How many times as long as warm calls the sustained ones last: some copies to the database."""
CLIENT = (sys.executable, "-m", "benchmarks.peers.plughost.invoking")


def measure(effort: Effort, peers: Path | None) -> list[Sheet]:
    with tempfile.TemporaryDirectory(prefix="plughost-bench-") as made:
        os.chmod(made, 0o755)
        folder = Path(made)
        write_package(folder / "package")
        with pinned_to(two_sides()[0]):
            warm = asyncio.run(_warm(folder, effort))
        return [warm, asyncio.run(_sustained(folder, effort)), asyncio.run(_cold(folder, effort))]


async def _warm(folder: Path, effort: Effort) -> Sheet:
    note = (
        "the tool is a program in C, 100 B, strict, both schemas, recorded before it is answered; one CPU. "
        "Beside the yardstick, whose echo is in Python, stands the raw pipe to the tool's own program"
    )
    package = folder / "package"
    contenders: list[Contender] = [
        RawPipe(YARDSTICK, PYTHON_ECHO),
        RawPipe(RAW_C, C_ECHO),
        VaiCall(BARE, package, "inline"),
        Invoking(INLINE, package, folder / "inline", "inline"),
        Apart(UVLOOP, (*CLIENT, str(package), str(folder / "uvloop"), "inline")),
        Invoking(BOUND, package, folder / "bound", "isolated"),
    ]
    named = {each.name: each for each in contenders}
    sheet = Sheet(WARM, note, {"p50": "µs", "p99": "µs"}, [*named], base=YARDSTICK)
    for each in contenders:
        await each.open()
    for name in turns(sheet.name, [*named], effort.rounds):
        times = await named[name].one_at_a_time(SIZE, effort.latency)
        sheet.add(name, p50=quantile(times, 0.5) * 1e6, p99=quantile(times, 0.99) * 1e6)
    for each in contenders:
        await each.close()
    return sheet


async def _sustained(folder: Path, effort: Effort) -> Sheet:
    note = (
        "for so long that the journal's lines are copied to the database meanwhile (SQLite), beside a call "
        "of the same program; 100 B, strict; not pinned"
    )
    contenders: list[Contender] = [
        VaiCall(BARE, folder / "package", "inline"),
        Invoking(INLINE, folder / "package", folder / "sustained", "inline"),
    ]
    sheet = Sheet(SUSTAINED, note, {"p50": "µs", "p99": "µs"}, [each.name for each in contenders], base=BARE)
    async with opened(contenders):
        for each in swapped(sheet.name, contenders, effort.keys_rounds):
            times = await each.one_at_a_time(SIZE, effort.latency * LONGER)
            sheet.add(each.name, p50=quantile(times, 0.5) * 1e6, p99=quantile(times, 0.99) * 1e6)
    return sheet


async def _cold(folder: Path, effort: Effort) -> Sheet:
    note = "a process for each invocation, strict, from the call to its outcome; not pinned"
    sheet = Sheet(COLD, note, {"time": "ms"}, [EACH], base=EACH)
    contender = Invoking(
        EACH, folder / "package", folder / "cold", "isolated", InvokerOptions(reuse="invocation")
    )
    await contender.open()
    params = payload.params(SIZE)
    for name in turns(sheet.name, [EACH], effort.spawns):
        began = perf_counter()
        outcome = await contender.call(params)
        assert outcome.ok, outcome
        sheet.add(name, time=(perf_counter() - began) * 1e3)
    await contender.close()
    return sheet
