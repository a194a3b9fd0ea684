"""A registry that misbehaves as told: each path has a script of answers, the last of which stays."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from plughost.vai.packages.oci.reference import parse_reference
from plughost.vai.packages.oci.registry.repository import Registry, open_registry
from plughost.vai.packages.oci.registry.retry import RetryPolicy

HASTY = RetryPolicy(retries=3, first=0.001, longest=0.01)


class Exchange:
    """One request, and the way to answer it by hand."""

    def __init__(self, method: str, path: str, headers: dict[str, str], reader, writer) -> None:
        self.method = method
        self.path = path
        self.headers = headers
        self.reader: asyncio.StreamReader = reader
        self.writer: asyncio.StreamWriter = writer
        self.body = b""

    @property
    def length(self) -> int:
        return int(self.headers.get("content-length", 0))

    @property
    def start(self) -> int | None:
        told = re.fullmatch(r"bytes=([0-9]+)-", self.headers.get("range", ""))
        return int(told[1]) if told else None


Play = Callable[[Exchange], Awaitable[None]]


def answer(body: bytes = b"", status: int = 200, *headers: str, length: int | None = None) -> Play:
    async def play(exchange: Exchange) -> None:
        exchange.body = await exchange.reader.readexactly(exchange.length)
        size = len(body) if length is None else length
        head = "\r\n".join([f"HTTP/1.1 {status} Reason", *headers, f"Content-Length: {size}", "", ""])
        exchange.writer.write(head.encode() + (body if exchange.method != "HEAD" else b""))
        await exchange.writer.drain()
        if len(body) < size and exchange.method != "HEAD":
            raise ConnectionError("cut, as told")

    return play


def document(body: dict | bytes, kind: str = "application/json", *headers: str, status: int = 200) -> Play:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return answer(data, status, f"Content-Type: {kind}", *headers)


def problem(status: int, message: str, *headers: str) -> Play:
    return document(
        {"errors": [{"code": "X", "message": message}]}, "application/json", *headers, status=status
    )


class Faulty:
    def __init__(self) -> None:
        self.scripts: dict[str, list[Play]] = {}
        self.seen: list[Exchange] = []
        self.served = 0
        """Bytes of blobs."""
        self._handlers: set[asyncio.Task[None]] = set()

    def on(self, request: str, *plays: Play) -> None:
        """`METHOD /path`, without the query."""
        self.scripts[request] = list(plays)

    def blob(self, data: bytes, *, cut: int | None = None, ranges: bool = True) -> Play:
        """The bytes, from the range on that is asked for; no more than `cut` of them before the line goes dead."""

        async def play(exchange: Exchange) -> None:
            start = exchange.start if ranges else None
            rest = data[start or 0 :]
            told = [f"Content-Range: bytes {start}-{len(data) - 1}/{len(data)}"] if start is not None else []
            sent = rest if cut is None else rest[:cut]
            self.served += len(sent)
            await answer(sent, 206 if told else 200, *told, length=len(rest))(exchange)

        return play

    def requests(self, method: str) -> list[str]:
        return [exchange.path for exchange in self.seen if exchange.method == method]

    async def start(self, tls: ssl.SSLContext | None = None) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=tls)
        self.port = self._server.sockets[0].getsockname()[1]
        self.address = f"127.0.0.1:{self.port}"

    async def stop(self) -> None:
        self._server.close()
        for handler in self._handlers:
            handler.cancel()
        await asyncio.gather(*self._handlers, return_exceptions=True)
        await self._server.wait_closed()

    @asynccontextmanager
    async def open(self, **options) -> AsyncIterator[Registry]:
        reference = parse_reference(f"{self.address}/acme/devkit")
        async with open_registry(reference, **({"environ": {}, "policy": HASTY} | options)) as registry:
            yield registry

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._handlers.add(task)
        try:
            with contextlib.suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
                while True:
                    await self._one(reader, writer)
        finally:
            self._handlers.discard(task)
            writer.close()

    async def _one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        method, path, _ = lines[0].split(" ")
        headers = {name.lower(): value for name, value in (line.split(": ", 1) for line in lines[1:] if line)}
        exchange = Exchange(method, path, headers, reader, writer)
        self.seen.append(exchange)
        plays = self.scripts.get(f"{method} {path.partition('?')[0]}")
        play = problem(404, "not here") if not plays else plays.pop(0) if len(plays) > 1 else plays[0]
        await play(exchange)


class Line:
    """What has passed between a client and the registry behind a relay."""

    address = ""
    up = down = cuts = 0


@asynccontextmanager
async def relay(
    registry: str, *, up: int = 1 << 40, down: int = 1 << 40, times: int = 1
) -> AsyncIterator[Line]:
    """A line to a real registry that goes dead after so many bytes up or down, so many times."""
    line = Line()
    running: set[asyncio.Task[None]] = set()

    async def pump(reader, writer, limit, count) -> None:
        passed = 0
        while data := await reader.read(65536):
            passed += len(data)
            if passed > limit and line.cuts < times:
                line.cuts += 1
                return
            count(len(data))
            writer.write(data)
            await writer.drain()

    async def serve(reader, writer) -> None:
        running.add(asyncio.current_task())
        host, port = registry.split(":")
        inner_reader, inner_writer = await asyncio.open_connection(host, int(port))
        ways = [
            asyncio.ensure_future(pump(reader, inner_writer, up, lambda n: setattr(line, "up", line.up + n))),
            asyncio.ensure_future(
                pump(inner_reader, writer, down, lambda n: setattr(line, "down", line.down + n))
            ),
        ]
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        for way in ways:
            way.cancel()
        await asyncio.gather(*ways, return_exceptions=True)
        for stream in (writer, inner_writer):
            stream.transport.abort()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    line.address = "127.0.0.1:%d" % server.sockets[0].getsockname()[1]
    try:
        yield line
    finally:
        server.close()
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
