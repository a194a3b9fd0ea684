"""Runs the process of a host under test: keeps all its output, and kills all its descendants at the end."""

from __future__ import annotations

import asyncio
import os
import signal
from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from plughost.engine.io.channel import PipeChannel
from plughost.engine.io.process import Process
from plughost.engine.launcher.launch import Launch
from plughost.errors import LaunchFailed

KILL_TIMEOUT = 10.0
MOST_LINES = 10_000
"""Maximum number of lines kept of its stderr."""
MOST_BYTES = 8 << 20
"""Maximum number of bytes kept of its stdout."""


class HostProcess:
    """A context manager: the process runs inside; on exit it and all its descendants are killed."""

    def __init__(self, command: Sequence[str], env: Mapping[str, str]) -> None:
        self._launch = Launch(tuple(command), env)
        self.stdout = bytearray()
        self.stderr: deque[str] = deque(maxlen=MOST_LINES)

    async def __aenter__(self) -> Self:
        loop = asyncio.get_running_loop()
        self._ended: asyncio.Future[None] = loop.create_future()
        executed: asyncio.Future[LaunchFailed | None] = loop.create_future()
        self._process = Process(
            self._launch,
            loop,
            executed.set_result,
            lambda: self._ended.set_result(None),
            on_stderr=self.stderr.extend,
        )
        self._channel = PipeChannel(
            loop,
            self._process.stdout,
            self._process.stdin,
            on_data=self._take,
            on_end=lambda: None,
            on_broken=lambda error: None,
            on_room=lambda: None,
        )
        self._channel.resume()
        if (failure := await executed) is not None:
            await self._close()
            raise failure
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._close()

    async def _close(self) -> None:
        self._process.kill()
        if not await self.ends_within(KILL_TIMEOUT):
            self._process.kill_launcher()
        self._channel.close()
        self._process.release()

    def _take(self, data: bytes) -> None:
        if len(self.stdout) < MOST_BYTES:
            self.stdout += data

    @property
    def status(self) -> int | None:
        """The exit code, or the negative signal number; None while it runs."""
        return self._process.exit_status

    async def ends_within(self, seconds: float) -> bool:
        """Waits for the exit; False when it does not come within `seconds`."""
        return bool((await asyncio.wait([self._ended], timeout=seconds))[0])

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
