"""What one process asks of the host: each request a task, as many at a time as the policy allows.

Nothing of it grows without end. A plugin that does not read its answers is not read either, until it does;
nor is one with a thousand requests in line, or with many megabytes of them, until some are served.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any

import msgspec

from plughost._util.text import bounded
from plughost.engine.caller import Caller
from plughost.engine.channel import Channel
from plughost.engine.session import Session
from plughost.errors import InvalidSpec, PluginError, UnknownMethod
from plughost.wire.framing import FrameTooLarge, Framing
from plughost.wire.messages import Request

Serve = Callable[[Caller, str, msgspec.Raw], Coroutine[Any, Any, Any]]
"""Answers a plugin's request: who asks, method and params to a result, or a PluginError."""

HIGH_WATER = 256 * 1024
"""With so many bytes of answers unread, no further answer is made."""
MOST_WAITING = 1024
"""Requests that wait for their turn; with so many, no more are read."""
MOST_HELD = 32 << 20
"""Bytes of params that wait or are served; with so many, no more are read. Twice the largest message."""
SHOWN = 200
"""Characters of a method's name in an error."""


class RequestServer:
    __slots__ = (
        "_caller", "_channel", "_framing", "_held", "_limit", "_room", "_serve", "_session", "_tasks",
        "_waiting",
    )  # fmt: skip

    def __init__(
        self,
        caller: Caller,
        session: Session,
        framing: Framing,
        channel: Channel,
        serve: Serve | None,
        limit: int,
    ) -> None:
        self._caller = caller
        self._session = session
        self._framing = framing
        self._channel = channel
        self._serve = serve
        self._limit = limit
        self._tasks: set[asyncio.Task[None]] = set()
        self._waiting: deque[Request] = deque()
        self._held = 0
        self._room: list[asyncio.Future[None]] = []

    def __len__(self) -> int:
        return len(self._tasks) + len(self._waiting)

    def take(self, request: Request) -> None:
        self._held += len(request.params)
        if self._has_too_much():
            self._channel.pause()  # what this read has brought is still taken
        if len(self._tasks) < self._limit and not self._is_full():
            self._start(request)
        else:
            self._waiting.append(request)

    def on_room(self) -> None:
        """The plugin has read something."""
        if self._is_full():
            return
        waiting, self._room = self._room, []
        for future in waiting:
            if not future.done():
                future.set_result(None)
        self._go_on()

    def close(self) -> None:
        """The process is gone: nobody waits for these answers."""
        self._waiting.clear()
        for task in self._tasks:
            task.remove_done_callback(self._done)
            task.cancel()
        self._tasks.clear()

    def _is_full(self) -> bool:
        return self._channel.buffered >= HIGH_WATER

    def _has_too_much(self) -> bool:
        return self._is_full() or len(self._waiting) >= MOST_WAITING or self._held >= MOST_HELD

    def _start(self, request: Request) -> None:
        task = asyncio.create_task(self._respond(request))
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _go_on(self) -> None:
        while self._waiting and len(self._tasks) < self._limit and not self._is_full():
            self._start(self._waiting.popleft())
        if not self._has_too_much():
            self._channel.resume()

    async def _respond(self, request: Request) -> None:
        try:
            if self._serve is None:
                raise UnknownMethod(f"method not found: {bounded(request.method, SHOWN)}")
            result = await self._serve(self._caller, request.method, request.params)
            while self._is_full():  # before the answer takes up memory, too
                self._room.append(asyncio.get_running_loop().create_future())
                await self._room[-1]
            frame = self._framing.encode(self._session.answer(request.id, result))
        except PluginError as error:
            frame = self._refusal(request, error)
        except FrameTooLarge as error:
            frame = self._refusal(request, InvalidSpec(f"the answer is too large: {error}"))
        except Exception as error:  # a service's own fault must not end the conversation
            fault = f"the host failed to serve {bounded(request.method, SHOWN)!r}: {type(error).__name__}"
            frame = self._refusal(request, PluginError(fault))
        finally:
            self._held -= len(request.params)
        if frame:
            self._channel.write(frame)
            if self._is_full():
                self._channel.pause()

    def _refusal(self, request: Request, error: PluginError) -> bytes:
        try:
            return self._framing.encode(self._session.error_response(request.id, error))
        except FrameTooLarge:  # its own id is
            self._caller.warn("a request with an id that is too long to be answered")
            return b""

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._go_on()
