"""Runs processes of a plugin without a host, for conformance tests and recorded traffic, in the same sandbox
as in a host.

No process can be started without its sandbox: `Start` uses the plan of the sandbox manager, and a plugin that
cannot be confined as asked is not started.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from plughost.clock import best_clock
from plughost.contracts.base import ResolvedSpec
from plughost.engine.io.process import Process
from plughost.errors import LaunchFailed
from plughost.sandbox.manager import SandboxManager
from plughost.sandbox.memory.meter import MeteredTree
from plughost.spec import PluginSpec

Start = Callable[[Callable[[LaunchFailed | None], None], Callable[[], None]], Process]
"""Starts a process; the arguments are called when it was executed (or failed to be), and when it has
exited."""


@asynccontextmanager
async def confine_unhosted(spec: PluginSpec, resolved: ResolvedSpec) -> AsyncIterator[Start]:
    """A context in which processes of the plugin can be started; LaunchFailed when it cannot be confined as
    its spec, or else its contract, asks."""
    loop = asyncio.get_running_loop()
    clock = best_clock(loop)
    manager = SandboxManager(clock, os.environ.get("PLUGHOST_CGROUP"), lambda plugin, connection: None)
    try:
        plan = await manager.confine(spec, resolved)

        def start(on_executed: Callable[[LaunchFailed | None], None], on_exit: Callable[[], None]) -> Process:
            process = Process(plan.launch, loop, on_executed, on_exit)
            if plan.metered_memory is not None:
                manager.meter.started(_metered(process, plan.metered_memory))
            return process

        yield start
    finally:
        await manager.close()
        clock.close()


def _metered(process: Process, limit: int) -> MeteredTree:
    """The process tree for the memory meter, where no control group limits its memory."""

    def over(used: int) -> None:
        words = f"it used {used >> 20} MiB of memory, more than the limit of {limit >> 20} MiB"
        process.stderr.feed(f"plughost: {words}\n".encode())
        process.kill()

    return MeteredTree(limit, lambda: [process.pid] if process.alive else [], over)
