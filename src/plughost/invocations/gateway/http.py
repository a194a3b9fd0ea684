"""HTTP/1.1 on a unix socket, for clients that are hostile: every head, body, place and moment is bounded.

A body is read only when the head was admitted. When all places are taken, whoever has kept one longest
without a whole request makes way.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from urllib.parse import parse_qsl

import h11
import msgspec

from plughost.invocations.gateway.messages import Answer, Head, Problem

Admit = Callable[[Head], Callable[[bytes], Awaitable[Answer]]]
"""Judges a head, and returns who answers the request; Problem when nobody does."""

READ = 16 << 10
"""Bytes at a time; so no head is larger than that and its own bound."""
LINGER = 2.0
"""Seconds for a client to stop sending what nobody will read."""


class Bounds(msgspec.Struct, frozen=True, kw_only=True):
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
    """Answers on `socket` from `start` to `close`."""

    def __init__(self, admit: Admit, bounds: Bounds | None = None) -> None:
        self._admit = admit
        self._bounds = bounds or Bounds()
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()
        self._silent: dict[asyncio.Task[None], None] = {}
        """Those without a whole request, the oldest first."""

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
            if not self._silent:
                writer.close()
                return
            oldest = next(iter(self._silent))
            del self._silent[oldest]
            oldest.cancel()
        task = asyncio.get_running_loop().create_task(self._serve(reader, writer))
        self._connections.add(task)
        self._silent[task] = None
        task.add_done_callback(partial(self._over, writer))

    def _over(self, writer: asyncio.StreamWriter, task: asyncio.Task[None]) -> None:
        """Here, and not where it serves: whoever makes way at once has not come that far."""
        writer.close()
        self._connections.discard(task)
        self._silent.pop(task, None)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        talk = h11.Connection(h11.SERVER, max_incomplete_event_size=self._bounds.head)
        try:
            first = True
            while await self._exchange(task, talk, reader, writer, first=first):
                first = False
                talk.start_next_cycle()
                self._silent[task] = None
        except (OSError, TimeoutError):
            pass  # it has gone, or takes nothing: there is nobody to tell

    async def _exchange(
        self,
        task: asyncio.Task[None],
        talk: h11.Connection,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        *,
        first: bool,
    ) -> bool:
        """One request and its answer; False when there will be no other."""
        try:
            if not first and not await self._is_more(talk, reader):
                return False
            async with asyncio.timeout(self._bounds.request_seconds):
                head = await _next(talk, reader)
                if not isinstance(head, h11.Request):
                    return False
                answer = self._admit(_head(head, self._bounds.body))
                if talk.they_are_waiting_for_100_continue:
                    writer.write(talk.send(h11.InformationalResponse(status_code=100, headers=[])) or b"")
                body = await self._body(talk, reader)
            self._silent.pop(task, None)
            answered = await answer(body)
        except Problem as problem:
            answered = problem.answer
        except TimeoutError:
            slow = f"a request is whole within {self._bounds.request_seconds:g} s"
            answered = Problem(408, "too_slow", slow).answer
        except h11.RemoteProtocolError as error:
            answered = Problem(error.error_status_hint, "invalid_request", str(error)).answer
        async with asyncio.timeout(self._bounds.answer_seconds):
            return await _answer(talk, reader, writer, answered)

    async def _is_more(self, talk: h11.Connection, reader: asyncio.StreamReader) -> bool:
        """Whether the client has begun another request."""
        if talk.trailing_data[0]:
            return True
        async with asyncio.timeout(self._bounds.idle_seconds):
            data = await reader.read(READ)
        talk.receive_data(data)
        return bool(data)

    async def _body(self, talk: h11.Connection, reader: asyncio.StreamReader) -> bytes:
        body = bytearray()
        while isinstance(event := await _next(talk, reader), h11.Data):
            body += event.data
            if len(body) > self._bounds.body:
                raise _too_large(self._bounds.body)
        if not isinstance(event, h11.EndOfMessage):
            raise Problem(400, "invalid_request", "the request ended before it was whole")
        return bytes(body)


async def _next(talk: h11.Connection, reader: asyncio.StreamReader) -> object:
    """Its next event, once enough was sent."""
    while (event := talk.next_event()) is h11.NEED_DATA:
        talk.receive_data(await reader.read(READ))
    return event


def _head(request: h11.Request, most: int) -> Head:
    headers: dict[bytes, bytes] = {}
    for name, value in request.headers:
        if name in headers and name in (b"authorization", b"transfer-encoding"):
            raise Problem(400, "invalid_request", f"there are two headers {name.decode()}")
        headers[name] = value
    if b"transfer-encoding" in headers and b"content-length" in headers:
        raise Problem(400, "invalid_request", "the body has a length or is chunked, not both")
    if int(headers.get(b"content-length", b"0")) > most:
        raise _too_large(most)
    path, _, query = request.target.decode("ascii").partition("?")
    try:
        asked = dict(parse_qsl(query, max_num_fields=16))
    except ValueError as error:
        raise Problem(400, "invalid_request", "the query has too many fields") from error
    scheme, _, token = headers.get(b"authorization", b"").decode("latin-1").partition(" ")
    return Head(
        method=request.method.decode("ascii"),
        path=path,
        query=asked,
        token=token.strip() if scheme.lower() == "bearer" else "",
    )


def _too_large(most: int) -> Problem:
    return Problem(413, "too_large", f"a body has at most {most} bytes")


async def _answer(
    talk: h11.Connection,
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    answer: Answer,
) -> bool:
    """False when the connection is closed with it: what the client still sends would be no new request."""
    if talk.our_state not in (h11.IDLE, h11.SEND_RESPONSE):
        return False
    whole = talk.their_state is h11.DONE
    body = msgspec.json.encode(answer.document)
    headers = [
        (b"Content-Type", answer.kind.encode()),
        (b"Content-Length", str(len(body)).encode()),
        (b"Cache-Control", b"no-store"),
    ]
    if not whole:
        headers.append((b"Connection", b"close"))
    for event in (
        h11.Response(status_code=answer.status, headers=headers),
        h11.Data(body),
        h11.EndOfMessage(),
    ):
        writer.write(talk.send(event) or b"")
    await writer.drain()
    if talk.states == {h11.CLIENT: h11.DONE, h11.SERVER: h11.DONE}:
        return True
    writer.write_eof()
    try:
        async with asyncio.timeout(LINGER):
            while await reader.read(READ):
                pass
    except TimeoutError:
        pass
    return False
