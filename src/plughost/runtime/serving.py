"""What one process asks of the host: each request a task, as many at a time as the policy allows."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import msgspec

from plughost.base.errors import PluginError, UnknownMethod
from plughost.runtime.caller import Caller
from plughost.runtime.channel import Channel
from plughost.runtime.session import Session
from plughost.wire.envelope import Request
from plughost.wire.framing import Framing

Serve = Callable[[Caller, str, msgspec.Raw], Coroutine[Any, Any, Any]]
"""Answers a plugin's request: who asks, method and params to a result, or a PluginError."""


class Serving:
    """At the limit the plugin is not read: it waits in its own pipe, and nothing is kept for it."""

    __slots__ = ("_caller", "_channel", "_framing", "_limit", "_serve", "_session", "_tasks")

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

    def __len__(self) -> int:
        return len(self._tasks)

    def take(self, request: Request) -> None:
        task = asyncio.create_task(self._respond(request))
        self._tasks.add(task)
        task.add_done_callback(self._done)
        if len(self._tasks) >= self._limit:
            self._channel.pause()

    def close(self) -> None:
        """The process is gone: nobody waits for these answers."""
        for task in self._tasks:
            task.remove_done_callback(self._done)
            task.cancel()
        self._tasks.clear()

    async def _respond(self, request: Request) -> None:
        try:
            if self._serve is None:
                raise UnknownMethod(f"method not found: {request.method}")
            result = await self._serve(self._caller, request.method, request.params)
            frame = self._framing.encode(self._session.answer(request.id, result))
        except PluginError as error:
            frame = self._refusal(request, error)
        except Exception as error:  # a service's own fault must not end the conversation
            fault = f"the host failed to serve {request.method!r}: {type(error).__name__}"
            frame = self._refusal(request, PluginError(fault))
        self._channel.write(frame)

    def _refusal(self, request: Request, error: PluginError) -> bytes:
        return self._framing.encode(self._session.refuse(request.id, error))

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if len(self._tasks) < self._limit:
            self._channel.resume()
