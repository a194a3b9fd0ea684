"""One connection as requests and answers: HTTP/1.1 with h11 between our values and a stream's bytes."""

from __future__ import annotations

import asyncio
from urllib.parse import parse_qsl

import h11
import msgspec

from plughost.vai.gateway.messages import HttpAnswer, HttpProblem, RequestHead

READ = 16 << 10
"""Bytes at a time; so no head is larger than that and its own bound."""
LINGER = 2.0
"""Seconds for a client to stop sending what nobody will read."""
LONGEST_KEY = 255
MOST_FIELDS = 16
"""Of a query."""


class Talk:
    """A request after the other: its head, its body, its answer. Problem for what is no request."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, most_head: int, most_body: int
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._most_body = most_body
        self._h11 = h11.Connection(h11.SERVER, max_incomplete_event_size=most_head)

    async def is_more(self) -> bool:
        """Whether the client has begun another request."""
        if self._h11.trailing_data[0]:
            return True
        data = await self._reader.read(READ)
        self._h11.receive_data(data)
        return bool(data)

    async def head(self) -> RequestHead | None:
        """None when the client has gone instead."""
        request = await self._next()
        return self._head(request) if isinstance(request, h11.Request) else None

    async def body(self) -> bytes:
        if self._h11.they_are_waiting_for_100_continue:
            self._send(h11.InformationalResponse(status_code=100, headers=[]))
        body = bytearray()
        while isinstance(event := await self._next(), h11.Data):
            body += event.data
            if len(body) > self._most_body:
                raise self._too_large()
        if not isinstance(event, h11.EndOfMessage):
            raise HttpProblem(400, "invalid_request", "the request is incomplete")
        return bytes(body)

    async def answer(self, answer: HttpAnswer) -> bool:
        """False when it was the last: of a request that was not whole nobody knows where the next begins."""
        if self._h11.our_state not in (h11.IDLE, h11.SEND_RESPONSE):
            return False
        body = msgspec.json.encode(answer.document)
        headers = [
            (b"Content-Type", answer.kind.encode()),
            (b"Content-Length", str(len(body)).encode()),
            (b"Cache-Control", b"no-store"),
        ]
        if self._h11.their_state is not h11.DONE:
            headers.append((b"Connection", b"close"))
        self._send(
            h11.Response(status_code=answer.status, headers=headers), h11.Data(body), h11.EndOfMessage()
        )
        await self._writer.drain()
        if self._h11.states == {h11.CLIENT: h11.DONE, h11.SERVER: h11.DONE}:
            self._h11.start_next_cycle()
            return True
        self._writer.write_eof()
        try:
            async with asyncio.timeout(LINGER):
                while await self._reader.read(READ):
                    pass
        except TimeoutError:
            pass
        return False

    async def _next(self) -> object:
        """The next event, once enough was sent for it."""
        try:
            while (event := self._h11.next_event()) is h11.NEED_DATA:
                self._h11.receive_data(await self._reader.read(READ))
        except h11.RemoteProtocolError as error:
            raise HttpProblem(error.error_status_hint, "invalid_request", str(error)) from error
        return event

    def _send(self, *events: h11.Event) -> None:
        for event in events:
            self._writer.write(self._h11.send(event) or b"")

    def _head(self, request: h11.Request) -> RequestHead:
        headers: dict[bytes, bytes] = {}
        for name, value in request.headers:
            if name in headers and name in (b"authorization", b"idempotency-key", b"transfer-encoding"):
                raise HttpProblem(400, "invalid_request", f"there is more than one header {name.decode()}")
            headers[name] = value
        if b"transfer-encoding" in headers and b"content-length" in headers:
            raise HttpProblem(400, "invalid_request", "the body must have a length or be chunked, not both")
        if int(headers.get(b"content-length", b"0")) > self._most_body:
            raise self._too_large()
        path, _, query = request.target.decode("ascii").partition("?")
        try:
            asked = dict(parse_qsl(query, max_num_fields=MOST_FIELDS))
        except ValueError as error:
            raise HttpProblem(400, "invalid_request", "the query has too many fields") from error
        key = headers.get(b"idempotency-key", b"").decode("latin-1")
        if len(key) > LONGEST_KEY:
            raise HttpProblem(
                400, "invalid_request", f"an Idempotency-Key has at most {LONGEST_KEY} characters"
            )
        scheme, _, token = headers.get(b"authorization", b"").decode("latin-1").partition(" ")
        return RequestHead(
            method=request.method.decode("ascii"),
            path=path,
            query=asked,
            token=token.strip() if scheme.lower() == "bearer" else "",
            key=key,
        )

    def _too_large(self) -> HttpProblem:
        return HttpProblem(413, "too_large", f"a body has at most {self._most_body} bytes")
