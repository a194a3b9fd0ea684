"""A web on 127.0.0.1: a server that answers as told, names that lead where they are told, a log of what was dialled."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import Awaitable, Callable, Sequence

import msgspec

from plughost.services.network.fetch import Network

Answer = bytes | Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]

PUBLIC = "93.184.216.34"
"""Never dialled: the web's `connect` takes it to its own server."""


def answer(body: bytes = b"", status: int = 200, *headers: str) -> bytes:
    lines = [f"HTTP/1.1 {status} Some Reason", *headers, f"Content-Length: {len(body)}"]
    return "\r\n".join([*lines, "", ""]).encode() + body


def redirect(to: str, status: int = 302) -> bytes:
    return answer(b"elsewhere", status, f"Location: {to}")


class Seen(msgspec.Struct):
    """A request as it arrived."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes


class Web:
    """One server for every name and address. `dialled` is what the network service wanted to reach."""

    def __init__(self) -> None:
        self.pages: dict[str, Answer] = {}
        self.names: dict[str, Sequence[str] | Exception] = {}
        self.looked_up: list[str] = []
        self.dialled: list[tuple[str, int]] = []
        self.seen: list[Seen] = []
        self.connections = 0
        self.open = 0
        self.most_open = 0
        self.port = 0
        self._handlers: set[asyncio.Task[None]] = set()
        self._networks: list[Network] = []

    async def start(self, tls: ssl.SSLContext | None = None) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=tls)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        for network in self._networks:
            await network.close()
        self._server.close()
        for handler in self._handlers:
            handler.cancel()
        await asyncio.gather(*self._handlers, return_exceptions=True)
        await self._server.wait_closed()

    def network(self, **options) -> Network:
        """A service whose names and connections are this web's."""
        network = Network(**{"resolve": self.resolve, "connect": self.connect, "timeout": 10.0} | options)
        self._networks.append(network)
        return network

    async def resolve(self, host: str) -> Sequence[str]:
        self.looked_up.append(host)
        found = self.names.get(host, OSError(-2, "Name or service not known"))
        if isinstance(found, Exception):
            raise found
        return found

    async def connect(self, address: str, port: int):
        import httpcore

        self.dialled.append((address, port))
        return await httpcore.AnyIOBackend().connect_tcp("127.0.0.1", self.port)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._handlers.add(task)
        self.connections += 1
        self.open += 1
        self.most_open = max(self.most_open, self.open)
        try:
            with contextlib.suppress(OSError, asyncio.IncompleteReadError):
                while True:  # as a server that keeps connections alive would
                    await self._one(reader, writer)
        finally:
            self.open -= 1
            self._handlers.discard(task)
            writer.transport.abort()

    async def _one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        method, path, _ = lines[0].split(" ")
        headers = dict(line.lower().split(": ", 1) for line in lines[1:] if line)
        body = await reader.readexactly(int(headers.get("content-length", 0)))
        self.seen.append(Seen(method, path, headers, body))
        page = self.pages.get(path, answer(b"no such page", 404))
        if isinstance(page, bytes):
            writer.write(page if method != "HEAD" else page.split(b"\r\n\r\n")[0] + b"\r\n\r\n")
            await writer.drain()
        else:
            await page(reader, writer)
