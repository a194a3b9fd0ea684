"""ProcessContext: a process that runs inside a context, and is gone at its end."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from types import TracebackType
from typing import Self

from plughost.engine.io.channel import PipeChannel
from plughost.errors import LaunchFailed
from plughost.sandbox.unhosted import Start

KILL_TIMEOUT = 10.0
"""Seconds to wait for the end of a killed process."""


class ProcessContext(ABC):
    """A context manager: the process runs inside; on exit it and all its descendants are killed."""

    def __init__(self, start: Start) -> None:
        self._start = start

    async def __aenter__(self) -> Self:
        loop = asyncio.get_running_loop()
        executed: asyncio.Future[LaunchFailed | None] = loop.create_future()
        self._exited: asyncio.Future[None] = loop.create_future()
        self._process = self._start(executed.set_result, lambda: self._exited.set_result(None))
        self._channel = PipeChannel(
            loop,
            self._process.stdout,
            self._process.stdin,
            on_data=self._on_data,
            on_end=self._on_end,
            on_broken=lambda error: None,  # it stopped reading; what it sent decides
            on_room=lambda: None,
        )
        self._channel.resume()
        try:
            await asyncio.wait([executed])
            if (failure := executed.result()) is not None:
                raise failure
        except BaseException:
            await self._close()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._close()

    async def _close(self) -> None:
        self._process.kill()
        try:
            await self._exits_within(KILL_TIMEOUT)
        finally:
            if not self._exited.done():
                self._process.kill_launcher()
            self._channel.close()
            self._process.release()

    async def _exits_within(self, seconds: float) -> bool:
        return bool((await asyncio.wait([self._exited], timeout=seconds))[0])

    @abstractmethod
    def _on_data(self, data: bytes) -> None:
        """Take bytes of its stdout."""

    def _on_end(self) -> None:  # noqa: B027 not everybody waits for it
        """Its stdout has ended."""
