"""How long it takes from nothing to the first answer."""

from __future__ import annotations

import asyncio
import itertools
import os
from functools import partial
from pathlib import Path
from time import perf_counter

from benchmarks.contenders.child import Child
from benchmarks.effort import Effort
from benchmarks.paths import C_ECHO, STDLIB_ECHO
from benchmarks.sheet import Sheet
from benchmarks.turns import turns
from plughost import Host, PluginSpec

PROGRAMS = {"C": (*C_ECHO, "lines"), "Python, standard library": STDLIB_ECHO}


def measure(effort: Effort, peers: Path | None) -> list[Sheet]:
    return [asyncio.run(_measure(program, command, effort)) for program, command in PROGRAMS.items()]


async def _measure(program: str, command: tuple[str, ...], effort: Effort) -> Sheet:
    async with Host() as host:
        ways = {"Popen": partial(_by_popen, command), "plughost": partial(_by_host, host, command)}
        sheet = Sheet(f"spawn to first answer, {program}", "not pinned", {"time": "ms"}, ways, base="Popen")
        for way in turns(sheet.name, [*ways], effort.spawns):
            sheet.add(way, time=await ways[way]() * 1e3)
    return sheet


async def _by_popen(command: tuple[str, ...]) -> float:
    began = perf_counter()
    child = Child(command)
    os.write(child.stdin, b'{"method":"echo","id":1,"params":{}}\n')
    os.read(child.stdout, 4096)
    took = perf_counter() - began
    child.close()
    return took


_numbers = itertools.count()


async def _by_host(host: Host, command: tuple[str, ...]) -> float:
    name = f"spawned-{next(_numbers)}"
    plugin = await host.add(PluginSpec(contract="mcptest", name=name, command=command))
    began = perf_counter()
    await plugin.call("echo", {}, timeout=10)
    took = perf_counter() - began
    await host.remove(name)
    return took
