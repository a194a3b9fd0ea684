"""Self-test of the launcher on this machine: a process tries to escape and must be ended."""

from __future__ import annotations

import asyncio
import os

from plughost.engine.io.process import Process
from plughost.engine.launcher.launch import Launch
from plughost.errors import LaunchFailed

ESCAPE = "setsid sh -c 'sleep 60 & echo out; exec sleep 60' & read line"
"""A shell script with an orphaned child in a session of its own, which holds stdout open until it is dead."""


async def run_selftest(launcher: tuple[str, ...], mode: str, timeout: float = 5.0) -> tuple[bool, str]:
    """Whether ending a plugin also ends a descendant that tries to escape; and the launcher's mode, or the
    reason."""
    loop = asyncio.get_running_loop()
    executed: asyncio.Future[LaunchFailed | None] = loop.create_future()
    exited: asyncio.Future[None] = loop.create_future()
    launch = Launch(("/bin/sh", "-c", ESCAPE), {"PATH": os.defpath}, launcher=launcher, mode=mode)
    try:
        process = Process(launch, loop, executed.set_result, lambda: exited.set_result(None))
    except LaunchFailed as error:
        return False, error.message
    readable = asyncio.Event()
    loop.add_reader(process.stdout, readable.set)
    try:
        async with asyncio.timeout(timeout):
            if (failure := await executed) is not None:
                return False, failure.message
            await readable.wait()
            os.read(process.stdout, 64)
            readable.clear()
            process.kill()
            await exited
            await readable.wait()
            gone = os.read(process.stdout, 64) == b""
    except TimeoutError:
        return False, "a descendant was still there"
    finally:
        loop.remove_reader(process.stdout)
        process.kill_launcher()
        await asyncio.wait({exited}, timeout=1.0)  # it is reaped on the way
        os.close(process.stdin)
        os.close(process.stdout)
        process.release()
    return gone, process.mode
