"""An HTTP server on a unix socket, for hostile clients: every head, body, place and moment is bounded.

A body is read only when the head was admitted. When all places are taken, whoever has kept one longest
without a request in hand makes way.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial

import msgspec

from plughost.vai.gateway.messages import HttpAnswer, HttpProblem, RequestHead
from plughost.vai.gateway.talk import READ, Talk

Admit = Callable[[RequestHead], Callable[[bytes], Awaitable[HttpAnswer]]]
"""Judges a head, and returns who answers the request; Problem when nobody does."""


class HttpLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Limits of the HTTP server: connections, sizes in bytes, timeouts."""

    connections: int = 512
    head: int = 16 << 10
    body: int = 1 << 20
    request_seconds: float = 10.0
    """From its first byte, or its connection's, to its last."""
    idle_seconds: float = 60.0
    """Between two requests."""
    answer_seconds: float = 30.0
    """For a client to take its answer."""


class HttpServer:
    """Answers from `start` to `close`."""

    def __init__(self, admit: Admit, bounds: HttpLimits | None = None) -> None:
        self._admit = admit
        self._bounds = bounds or HttpLimits()
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()
        self._without: dict[asyncio.Task[None], None] = {}
        """Those without a request in hand, the oldest first."""

    async def start(self, path: str) -> None:
        self._server = await asyncio.start_unix_server(self._accept, path, limit=READ)

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
        for task in self._connections:
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._connections) >= self._bounds.connections:
            if not self._without:
                writer.close()
                return
            oldest = next(iter(self._without))
            del self._without[oldest]
            oldest.cancel()
        talk = Talk(reader, writer, most_head=self._bounds.head, most_body=self._bounds.body)
        task = asyncio.get_running_loop().create_task(self._serve(talk))
        self._connections.add(task)
        self._without[task] = None
        task.add_done_callback(partial(self._over, writer))

    def _over(self, writer: asyncio.StreamWriter, task: asyncio.Task[None]) -> None:
        """Here, and not where it serves: whoever makes way at once has not come that far."""
        writer.close()
        self._connections.discard(task)
        self._without.pop(task, None)

    async def _serve(self, talk: Talk) -> None:
        try:
            while await self._exchange(talk):
                await asyncio.sleep(0)  # many small requests in one read do not keep others waiting
                async with asyncio.timeout(self._bounds.idle_seconds):
                    if not await talk.is_more():
                        return
        except (OSError, TimeoutError):
            pass  # it has gone, or takes nothing: there is nobody to tell

    async def _exchange(self, talk: Talk) -> bool:
        """One request and its answer; False when there will be no other."""
        try:
            async with asyncio.timeout(self._bounds.request_seconds):
                head = await talk.head()
                if head is None:
                    return False
                answering = self._admit(head)
                body = await talk.body()
        except HttpProblem as problem:
            answer = problem.answer
        except TimeoutError:
            why = f"the request was not complete within {self._bounds.request_seconds:g} s"
            answer = HttpProblem(408, "too_slow", why).answer
        else:
            answer = await self._answer(answering(body))
        async with asyncio.timeout(self._bounds.answer_seconds):
            return await talk.answer(answer)

    async def _answer(self, answering: Awaitable[HttpAnswer]) -> HttpAnswer:
        """Meanwhile it makes way for nobody."""
        task = asyncio.current_task()
        assert task is not None
        self._without.pop(task, None)
        try:
            return await answering
        except HttpProblem as problem:
            return problem.answer
        finally:
            self._without[task] = None
