"""The outside of a sandbox in a test: servers on 127.0.0.1, names that lead where they are told, a way out."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import socket
import ssl
import subprocess
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

import pytest

from plughost.permissions.access import Endpoint
from plughost.sandbox.egress.connection import Connection, EgressLimits
from plughost.sandbox.egress.instance import EgressInstance
from tests.support import until

Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


def needs(command: str) -> None:
    """Skip where a user may lack it; never in CI."""
    if shutil.which(command) is None:
        if os.environ.get("CI"):
            pytest.fail(f"{command} is missing")
        pytest.skip(f"no {command} here")


def certificate(folder: Path, *names: str) -> tuple[Path, Path]:
    """A self-signed certificate, and its key."""
    needs("openssl")
    path, key = folder / "cert.pem", folder / "key.pem"
    words = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=test"
    alternatives = "subjectAltName=" + ",".join(names)
    usage = "keyUsage=critical,digitalSignature,keyCertSign"
    command = ["openssl", *words.split(), "-keyout", str(key), "-out", str(path)]
    subprocess.run([*command, "-addext", alternatives, "-addext", usage], check=True, capture_output=True)
    return path, key


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Says everything back, and ends when its peer does."""
    while data := await reader.read(65536):
        writer.write(data)
        await writer.drain()
    writer.write_eof()


async def web(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answers one request with its first line."""
    head = await reader.readuntil(b"\r\n\r\n")
    body = head.split(b"\r\n")[0]
    answer = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%b" % (len(body), body)
    writer.write(answer)
    await writer.drain()


class Server:
    """A TCP server that counts its guests."""

    def __init__(self, handler: Handler) -> None:
        self.guests = 0
        self.port = 0
        self._handler = handler
        self._live: set[asyncio.Task[None]] = set()

    async def start(
        self, tls: ssl.SSLContext | None = None, address: str = "127.0.0.1", port: int = 0
    ) -> Server:
        self._server = await asyncio.start_server(self._serve, address, port, ssl=tls)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def start_at(self, path: str) -> Server:
        """The same at a socket file."""
        self._server = await asyncio.start_unix_server(self._serve, path)
        return self

    async def stop(self) -> None:
        self._server.close()
        for task in self._live:
            task.cancel()
        await asyncio.gather(*self._live, return_exceptions=True)
        await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.guests += 1
        task = asyncio.current_task()
        assert task is not None
        self._live.add(task)
        try:
            with contextlib.suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
                await self._handler(reader, writer)
        finally:
            self._live.discard(task)
            writer.close()


class Outside:
    """Opens ways out and servers, and closes them all."""

    def __init__(self, folder: Path) -> None:
        self.names: dict[str, Sequence[str]] = {}
        self.looked_up: list[str] = []
        self.records: list[Connection] = []
        self._folder = folder
        self._ways: list[EgressInstance] = []
        self._servers: list[Server] = []

    async def server(
        self, handler: Handler = echo, tls: ssl.SSLContext | None = None, path: str | None = None
    ) -> Server:
        server = Server(handler)
        await (server.start(tls) if path is None else server.start_at(path))
        self._servers.append(server)
        return server

    def way(self, *endpoints: Endpoint, limits: EgressLimits | None = None, **options) -> EgressInstance:
        folder = self._folder / str(len(self._ways))
        folder.mkdir()
        options = {"resolve": self.resolve} | options
        way = EgressInstance(
            endpoints, Path(folder) / "way-out", self.records.append, limits=limits, **options
        )
        self._ways.append(way)
        return way

    async def resolve(self, host: str) -> Sequence[str]:
        self.looked_up.append(host)
        if host not in self.names:
            raise OSError(-2, "Name or service not known")
        return self.names[host]

    async def record(self, count: int = 1) -> Connection:
        """The newest record, when there are so many."""
        await until(lambda: len(self.records) >= count)
        return self.records[-1]

    async def close(self) -> None:
        for way in self._ways:
            await way.close()
        for server in self._servers:
            await server.stop()


class Guest:
    """A plugin's end of a connection to the proxy."""

    def __init__(self, way: EgressInstance) -> None:
        self.socket = socket.socket(socket.AF_UNIX)
        folder = os.open(Path(way.socket).parent, os.O_PATH)
        try:
            self.socket.connect(f"/proc/self/fd/{folder}/proxy")
        finally:
            os.close(folder)
        self.socket.setblocking(False)
        self._loop = asyncio.get_running_loop()

    def __enter__(self) -> Guest:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    async def send(self, data: bytes) -> None:
        await self._loop.sock_sendall(self.socket, data)

    async def read(self, count: int) -> bytes:
        data = b""
        while len(data) < count and (more := await self._loop.sock_recv(self.socket, count - len(data))):
            data += more
        return data

    async def rest(self) -> bytes:
        data = b""
        with contextlib.suppress(ConnectionResetError):
            while more := await self._loop.sock_recv(self.socket, 65536):
                data += more
        return data

    def done(self) -> None:
        self.socket.shutdown(socket.SHUT_WR)

    async def ask(self, authority: str) -> bytes:
        """The head of the answer."""
        await self.send(f"CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\n\r\n".encode())
        head = b""
        while not head.endswith(b"\r\n\r\n") and (byte := await self._loop.sock_recv(self.socket, 1)):
            head += byte
        return head

    async def connect(self, authority: str) -> Guest:
        assert (await self.ask(authority)).startswith(b"HTTP/1.1 200 ")
        return self
