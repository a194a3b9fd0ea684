"""Runs the process of a host under test: keeps all its output, and kills all its descendants at the end."""

from __future__ import annotations

import asyncio
import os
import signal
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from plughost.conformance.process_context import ProcessContext
from plughost.engine.io.process import Process
from plughost.engine.launcher.launch import Launch
from plughost.errors import LaunchFailed

MOST_LINES = 10_000
"""Maximum number of lines kept of its stderr."""
MOST_BYTES = 8 << 20
"""Maximum number of bytes kept of its stdout."""


class HostProcess(ProcessContext):
    """The process of a host under test."""

    def __init__(self, command: Sequence[str], env: Mapping[str, str]) -> None:
        def start(on_executed: Callable[[LaunchFailed | None], None], on_exit: Callable[[], None]) -> Process:
            loop = asyncio.get_running_loop()
            return Process(
                Launch(tuple(command), env), loop, on_executed, on_exit, on_stderr=self.stderr.extend
            )

        super().__init__(start)
        self.stdout = bytearray()
        self.stderr: deque[str] = deque(maxlen=MOST_LINES)

    def _on_data(self, data: bytes) -> None:
        if len(self.stdout) < MOST_BYTES:
            self.stdout += data

    @property
    def status(self) -> int | None:
        """The exit code, or the negative signal number; None while it runs."""
        return self._process.exit_status

    async def ends_within(self, seconds: float) -> bool:
        """Waits for the exit; False when it does not come within `seconds`."""
        return await self._exits_within(seconds)

    def interrupt(self) -> None:
        """Sends SIGINT, as Ctrl-C does."""
        launcher = self._process.pid
        try:
            line = _command_line(launcher)
            below = launcher
            while (
                _command_line(below) == line
            ):  # skip the launcher, and its child launcher where there is one
                below = int(Path(f"/proc/{below}/task/{below}/children").read_text().split()[0])
            os.kill(below, signal.SIGINT)
        except (OSError, IndexError):
            return  # it ended just now


def _command_line(pid: int) -> bytes:
    return Path(f"/proc/{pid}/cmdline").read_bytes()
