"""What a sandbox costs: how much later the first answer comes, and whether later calls notice it."""

from __future__ import annotations

import asyncio
import itertools
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from time import perf_counter

from benchmarks import timing
from benchmarks.effort import Effort
from benchmarks.paths import C_ECHO, ROOT
from benchmarks.pinning import pinned_to, two_sides
from benchmarks.sheet import Sheet
from benchmarks.stats import quantile
from benchmarks.turns import turns
from plughost import Host, Plugin, PluginSpec

STRICT, NONE = "strict", "none"
PROGRAMS = ("C", "Python", "Node")
SEARCHED = "/usr/local/bin:/usr/bin:/bin"
"""Where every user finds interpreters: a root host's plugin is another one."""

_numbers = itertools.count()


def cold(program: str) -> str:
    return f"confined, first answer, {program}"


def warm(program: str) -> str:
    return f"confined, warm call, {program}"


def measure(effort: Effort, peers: Path | None) -> list[Sheet]:
    with _programs() as programs:
        sheets = [asyncio.run(_cold(name, command, effort)) for name, command in programs.items()]
        with pinned_to(two_sides()[0]):
            sheets += [asyncio.run(_warm(name, command, effort)) for name, command in programs.items()]
    return sheets


@contextmanager
def _programs() -> Iterator[dict[str, tuple[str, ...]]]:
    """Their commands, in a folder that every user can reach; without what is not installed."""
    with tempfile.TemporaryDirectory(prefix="plughost-bench-") as name:
        os.chmod(name, 0o755)
        echoes = {
            "echo": C_ECHO[0],
            "echo.py": "echo-mcptest/echo.py",
            "echo.js": "echo-mcptest-node/echo.js",
        }
        for copy, source in echoes.items():
            shutil.copy(ROOT / "plugins" / source, f"{name}/{copy}")
        python, node = (shutil.which(each, path=SEARCHED) for each in ("python3", "node"))
        found: dict[str, tuple[str, ...]] = {"C": (f"{name}/echo", "lines")}
        if python is not None:
            found["Python"] = (python, "-I", "-S", "-E", f"{name}/echo.py")
        if node is not None:
            found["Node"] = (node, f"{name}/echo.js")
        yield found


async def _add(host: Host, command: tuple[str, ...], sandbox: str) -> Plugin:
    name = f"{sandbox}-{next(_numbers)}"
    return await host.add(PluginSpec(contract="mcptest", name=name, command=command, sandbox=sandbox))


async def _cold(program: str, command: tuple[str, ...], effort: Effort) -> Sheet:
    note = (
        "from the first call to its answer; what is decided once for a plugin is decided before; not pinned"
    )
    sheet = Sheet(cold(program), note, {"time": "ms"}, [NONE, STRICT], base=NONE)
    async with Host() as host:
        for sandbox in turns(sheet.name, [NONE, STRICT], effort.spawns * 2):
            plugin = await _add(host, command, sandbox)
            began = perf_counter()
            await plugin.call("echo", {}, timeout=10)
            sheet.add(sandbox, time=(perf_counter() - began) * 1e3)
            await host.remove(plugin.name)
    return sheet


async def _warm(program: str, command: tuple[str, ...], effort: Effort) -> Sheet:
    note = "one call at a time; both processes on one CPU"
    sheet = Sheet(warm(program), note, {"p50": "µs"}, [NONE, STRICT], base=NONE)
    async with Host() as host:
        plugins = {sandbox: await _add(host, command, sandbox) for sandbox in (NONE, STRICT)}
        for sandbox in turns(sheet.name, [NONE, STRICT], effort.rounds * 2):
            call = partial(plugins[sandbox].call, "echo", {"text": "x" * 100}, timeout=30)
            sheet.add(sandbox, p50=quantile(await timing.one_at_a_time(call, effort.latency), 0.5) * 1e6)
    return sheet
