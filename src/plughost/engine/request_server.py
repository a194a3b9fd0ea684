"""RequestServer: serves the requests of one process to the host, each in a task, as many at a time as the
policy allows.

Its memory is bounded by backpressure. The host stops reading from a plugin that does not read its answers,
that has a thousand waiting requests, or many megabytes of them, until some are served.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any

import msgspec

from plughost._util.text import bounded
from plughost.engine.caller import Caller
from plughost.engine.io.channel import Channel
from plughost.engine.session import Session
from plughost.errors import InvalidSpec, PluginError, UnknownMethod
from plughost.wire.framing import FrameTooLarge, Framing
from plughost.wire.messages import Request

Serve = Callable[[Caller, str, msgspec.Raw], Coroutine[Any, Any, Any]]
"""Answers a plugin's request: takes the caller, the method and the params; returns a result, or raises
PluginError."""

HIGH_WATER = 256 * 1024
"""Bytes of answers that the plugin has not read; with more, no further answer is made."""
MAX_WAITING = 1024
"""Requests that wait for their turn; with as many, no more are read."""
MAX_PARAMS_BYTES = 32 << 20
"""Bytes of params that wait or are served; with as many, no more are read. Twice the largest message."""
MAX_METHOD = 200
"""Characters of a method's name in an error."""


class RequestServer:
    """The tasks and the queue of requests of one process. Its length is the number of open requests."""

    __slots__ = (
        "_caller", "_channel", "_framing", "_limit", "_params_bytes", "_room_waiters", "_serve", "_session",
        "_tasks", "_waiting",
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
        self._params_bytes = 0
        self._room_waiters: list[asyncio.Future[None]] = []

    def __len__(self) -> int:
        return len(self._tasks) + len(self._waiting)

    def take(self, request: Request) -> None:
        """Serve a request, now or when there is room."""
        self._params_bytes += len(request.params)
        if self._over_limits():
            self._channel.pause()  # the other requests of this read are still accepted
        if len(self._tasks) < self._limit and not self._unread_too_much():
            self._start(request)
        else:
            self._waiting.append(request)

    def on_room(self) -> None:
        """The plugin has read answers: continue with waiting answers and requests."""
        if self._unread_too_much():
            return
        waiting, self._room_waiters = self._room_waiters, []
        for future in waiting:
            if not future.done():
                future.set_result(None)
        self._start_waiting()

    def close(self) -> None:
        """Cancel all requests: the process has ended, and nobody waits for the answers."""
        self._waiting.clear()
        for task in self._tasks:
            task.remove_done_callback(self._done)
            task.cancel()
        self._tasks.clear()

    def _unread_too_much(self) -> bool:
        return self._channel.buffered >= HIGH_WATER

    def _over_limits(self) -> bool:
        return (
            self._unread_too_much()
            or len(self._waiting) >= MAX_WAITING
            or self._params_bytes >= MAX_PARAMS_BYTES
        )

    def _start(self, request: Request) -> None:
        task = asyncio.create_task(self._respond(request))
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _start_waiting(self) -> None:
        while self._waiting and len(self._tasks) < self._limit and not self._unread_too_much():
            self._start(self._waiting.popleft())
        if not self._over_limits():
            self._channel.resume()

    async def _respond(self, request: Request) -> None:
        try:
            if self._serve is None:
                raise UnknownMethod(f"method not found: {bounded(request.method, MAX_METHOD)}")
            result = await self._serve(self._caller, request.method, request.params)
            while self._unread_too_much():  # before the answer is encoded and takes memory, too
                self._room_waiters.append(asyncio.get_running_loop().create_future())
                await self._room_waiters[-1]
            frame = self._framing.encode(self._session.encode_response(request.id, result))
        except PluginError as error:
            frame = self._error_frame(request, error)
        except FrameTooLarge as error:
            frame = self._error_frame(request, InvalidSpec(f"the answer is too large: {error}"))
        except Exception as error:  # a bug in a service must not end the conversation
            message = (
                f"the host failed to serve {bounded(request.method, MAX_METHOD)!r}: {type(error).__name__}"
            )
            frame = self._error_frame(request, PluginError(message))
        finally:
            self._params_bytes -= len(request.params)
        if frame:
            self._channel.write(frame)
            if self._unread_too_much():
                self._channel.pause()

    def _error_frame(self, request: Request, error: PluginError) -> bytes:
        try:
            return self._framing.encode(self._session.encode_error(request.id, error))
        except FrameTooLarge:  # the request's id is too long
            self._caller.warn("a request with an id that is too long to be answered")
            return b""

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._start_waiting()
