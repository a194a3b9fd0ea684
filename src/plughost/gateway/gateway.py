"""Gateway: a data folder, its database and the HTTP server, as one context manager."""

from __future__ import annotations

import asyncio
import fcntl
import os
import socket
import stat
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Self

from litestar.types import ASGIApp

from plughost.clock import Clock, best_clock
from plughost.errors import HostFailed
from plughost.gateway.api.all_routes import ROUTES
from plughost.gateway.app import create_app
from plughost.gateway.bootstrap import bootstrap
from plughost.gateway.server import GatewayServer, create_server, listen
from plughost.gateway.services import GatewayOptions, GatewayServices
from plughost.vai.database.master_key import MasterKey
from plughost.vai.database.open_database import open_database

LOCK = "gateway.lock"
GRACE_SECONDS = 10.0


class Gateway:
    """The control plane on a data folder, which only its owner can enter.

    With SQLite, one process uses a folder; with a PostgreSQL `database`, several share one.
    """

    def __init__(
        self,
        folder: str,
        *,
        database: str | None = None,
        master_key: bytes | list[bytes] | None = None,
        host: str = "127.0.0.1",
        port: int = 8750,
        options: GatewayOptions | None = None,
        grace: float = GRACE_SECONDS,
        clock: Clock | None = None,
    ) -> None:
        self._folder = os.path.abspath(folder)
        self._url = database
        self._master_key = MasterKey(self._folder, master_key)
        self._address = host, port
        self._options = options
        self._grace = grace
        self._clock = clock
        self._closing = AsyncExitStack()
        self._serving: asyncio.Task[None] | None = None
        self.admin_key_file: str | None = None
        """The file of the administrator's key, if this start has made it."""

    @property
    def url(self) -> str:
        """The address of the API."""
        host, port = self._listener.getsockname()[:2]
        return f"http://{f'[{host}]' if ':' in host else host}:{port}"

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as stack:
            prepare_folder(self._folder)
            if self._url is None:
                stack.callback(os.close, _lock(self._folder))
            self._listener = _listen(*self._address)
            stack.callback(self._listener.close)
            database = open_database(self._folder, self._url)
            stack.push_async_callback(database.close)
            await database.open()
            seal = await self._master_key.seal(create=True)
            assert seal is not None
            self.admin_key_file = await bootstrap(database, self._folder)
            clock = self._clock
            if clock is None:
                clock = best_clock(asyncio.get_running_loop())
                stack.callback(clock.close)
            self.services = GatewayServices(database, seal, clock, self._options)
            stack.push_async_callback(self.services.close)
            self.app: ASGIApp = create_app(self.services, ROUTES)
            self._server = create_server(self.app, grace=self._grace)
            stack.push_async_callback(self._stop)
            await self._start()
            self._closing = stack.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Refuses new work, lets what runs finish within the grace, and closes everything."""
        await self._closing.aclose()

    async def _start(self) -> None:
        started = asyncio.Event()
        server: GatewayServer = self._server
        server.on_started = started.set
        self._serving = asyncio.create_task(server.serve(sockets=[self._listener]))
        waiting = asyncio.create_task(started.wait())
        await asyncio.wait({self._serving, waiting}, return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
        if not started.is_set():
            await self._serving
            raise HostFailed("the HTTP server did not start")

    async def _stop(self) -> None:
        self.services.is_ending = True
        self._server.should_exit = True
        if self._serving is not None:
            await asyncio.wait({self._serving}, timeout=self._grace + 2.0)


def prepare_folder(folder: str) -> None:
    """Creates the data folder, or refuses one that other users can enter."""
    try:
        os.makedirs(folder, 0o700, exist_ok=True)
        status = os.stat(folder)
    except OSError as error:
        raise HostFailed(
            f"the data folder {folder} cannot be used: {error.strerror}", hint="choose another with --data"
        ) from None
    if status.st_uid != os.geteuid():
        raise HostFailed(
            f"the data folder {folder} belongs to another user (uid {status.st_uid})",
            hint="run the gateway as that user, or choose another folder with --data",
        )
    if stat.S_IMODE(status.st_mode) & 0o077:
        raise HostFailed(
            f"the data folder {folder} can be entered by other users: its mode is "
            f"{stat.S_IMODE(status.st_mode):o}",
            hint=f"chmod 700 {folder}",
        )


def _lock(folder: str) -> int:
    path = os.path.join(folder, LOCK)
    lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        raise HostFailed(
            f"another gateway uses the data folder {folder}",
            hint="stop it first, choose another folder with --data, or use PostgreSQL for several processes",
        ) from None
    return lock


def _listen(host: str, port: int) -> socket.socket:
    try:
        return listen(host, port)
    except OSError as error:
        raise HostFailed(
            f"cannot listen on {host} port {port}: {error.strerror}", hint="choose another with --port"
        ) from None
