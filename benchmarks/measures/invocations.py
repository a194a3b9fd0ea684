"""What an invocation adds to a call: permissions, schemas, context, a record that outlives the host."""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
from functools import partial
from pathlib import Path
from time import perf_counter

from benchmarks import roster, timing
from benchmarks.contenders.raw_pipe import RawPipe
from benchmarks.effort import Effort
from benchmarks.paths import C_ECHO, HERE, PYTHON_ECHO
from benchmarks.pinning import pinned_to, two_sides
from benchmarks.roster import YARDSTICK
from benchmarks.sheet import Sheet
from benchmarks.stats import quantile
from benchmarks.turns import turns
from plughost import Host
from plughost.base.clock import best_clock
from plughost.contracts.vai import manifest
from plughost.invocations.binding import Binding, Scope
from plughost.invocations.invocation import Invocation
from plughost.invocations.invoker import LocalInvoker, Options
from plughost.invocations.journal import Journal
from plughost.invocations.package import Package
from plughost.invocations.work import Tool

WARM = "invocation, warm"
COLD = "invocation, cold"
RAW_C = f"{roster.RAW_C}, the same program"
INLINE = "inline ↔ C, shared process"
BOUND = "isolated ↔ C, reuse = binding"
EACH = "isolated, reuse = invocation"
INPUT = {"text": "x" * 100}


class _Shelf:
    def __init__(self, folder: str) -> None:
        self._package = Package(
            folder=folder, digest="sha256:bench", manifest=manifest.read(Path(folder)), trusted_inline=True
        )

    def find(self, package_id: str, version: str) -> Package:
        return self._package


def measure(effort: Effort, peers: Path | None) -> list[Sheet]:
    with tempfile.TemporaryDirectory(prefix="plughost-bench-") as folder:
        os.chmod(folder, 0o755)
        shutil.copytree(HERE / "plugins" / "vai_echo", f"{folder}/package")
        os.mkdir(f"{folder}/package/bin")
        shutil.copy(C_ECHO[0], f"{folder}/package/bin/echo")
        with pinned_to(two_sides()[0]):
            warm = asyncio.run(_warm(folder, effort))
        return [warm, asyncio.run(_cold(folder, effort))]


def _wanted(export: str) -> Invocation:
    binding = Binding(
        binding_id=f"bind_{export}",
        package_id="bench/echo",
        package_version="1.0.0",
        export_id=export,
        scope=Scope("org", "project"),
    )
    return Invocation(binding=binding, work=Tool(tool_execution_id="toolx", input=INPUT))


async def _warm(folder: str, effort: Effort) -> Sheet:
    note = (
        "the tool is a program in C, 100 B, strict, both schemas, recorded before it is answered; one CPU. "
        "Beside the yardstick, whose echo is in Python, stands the raw pipe to the tool's own program"
    )
    names = [YARDSTICK, RAW_C, INLINE, BOUND]
    sheet = Sheet(WARM, note, {"p50": "µs", "p99": "µs"}, names, base=YARDSTICK)
    raw = {each.name: each for each in (RawPipe(YARDSTICK, PYTHON_ECHO), RawPipe(RAW_C, C_ECHO))}
    for each in raw.values():
        await each.open()
    async with Host() as host:
        clock = best_clock(asyncio.get_running_loop())
        journal = Journal(f"{folder}/state", clock)
        invoker = LocalInvoker(host, _Shelf(f"{folder}/package"), journal, clock)
        wanted = {INLINE: _wanted("inline"), BOUND: _wanted("isolated")}
        for name in turns(sheet.name, names, effort.rounds):
            if name in raw:
                times = await raw[name].one_at_a_time(100, effort.latency)
            else:
                times = await timing.one_at_a_time(partial(invoker.invoke, wanted[name]), effort.latency)
            sheet.add(name, p50=quantile(times, 0.5) * 1e6, p99=quantile(times, 0.99) * 1e6)
        await invoker.close()
        await journal.close()
        clock.close()
    for each in raw.values():
        await each.close()
    return sheet


async def _cold(folder: str, effort: Effort) -> Sheet:
    note = "a process for each invocation, strict, from the call to its outcome; not pinned"
    sheet = Sheet(COLD, note, {"time": "ms"}, [EACH], base=EACH)
    async with Host() as host:
        clock = best_clock(asyncio.get_running_loop())
        journal = Journal(f"{folder}/state", clock)
        invoker = LocalInvoker(
            host, _Shelf(f"{folder}/package"), journal, clock, options=Options(reuse="invocation")
        )
        for name in turns(sheet.name, [EACH], effort.spawns):
            began = perf_counter()
            outcome = await invoker.invoke(_wanted("isolated"))
            assert outcome.ok, outcome
            sheet.add(name, time=(perf_counter() - began) * 1e3)
        await invoker.close()
        await journal.close()
        clock.close()
    return sheet
