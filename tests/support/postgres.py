"""A PostgreSQL server of the test session's own: a data folder and a socket that nobody else reaches."""

from __future__ import annotations

import asyncio
import os
import pwd
import secrets
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest

from plughost.vai.database.database import Database
from plughost.vai.database.postgresql import PostgresDatabase


def programs() -> Path | None:
    """The folder of initdb and postgres, the newest version."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    if found:
        return found[-1].parent
    on_path = shutil.which("initdb")
    return Path(on_path).resolve().parent if on_path else None


class Server:
    """One server; it refuses to run as root, so root starts it as another user."""

    def __init__(self, folder: Path, settings: dict[str, str] | None = None) -> None:
        where = programs()
        assert where is not None
        self._programs = where
        self.folder = folder
        self._settings = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}
        self._settings |= settings or {}
        self._user = None
        if os.geteuid() == 0:
            names = {each.pw_name for each in pwd.getpwall()}
            self._user = "postgres" if "postgres" in names else "nobody"
            shutil.chown(folder, self._user)
        self._run("initdb", "-D", str(folder / "data"), "-U", "plughost", "-A", "trust", "-E", "UTF8",
                  "--locale=C", "--no-sync")  # fmt: skip
        self.process: subprocess.Popen[bytes] | None = None
        self.start()

    def _run(self, program: str, *words: str) -> None:
        done = subprocess.run(
            [self._programs / program, *words],
            capture_output=True,
            user=self._user,
            cwd=self.folder,
            text=True,
        )
        assert done.returncode == 0, done.stderr

    def start(self) -> None:
        settings = {
            "listen_addresses": "",
            "unix_socket_directories": str(self.folder),
            "max_connections": "60",
        }
        words = [f"-c{name}={value}" for name, value in (settings | self._settings).items()]
        with open(self.folder / "log", "ab") as log:
            self.process = subprocess.Popen(
                [self._programs / "postgres", "-D", str(self.folder / "data"), *words],
                stdout=log,
                stderr=log,
                user=self._user,
                cwd=self.folder,
                start_new_session=True,
            )
        end = time.monotonic() + 30
        while "accept" not in self._status():
            assert time.monotonic() < end, (self.folder / "log").read_text()
            time.sleep(0.02)

    def _status(self) -> str:
        done = subprocess.run(
            [self._programs / "pg_isready", "-h", str(self.folder), "-U", "plughost", "-d", "postgres"],
            capture_output=True,
            text=True,
        )
        return done.stdout if done.returncode == 0 else ""

    def stop(self, how: signal.Signals = signal.SIGQUIT) -> None:
        """SIGINT ends it in order, SIGQUIT at once, as a crash does."""
        if self.process is not None:
            self.process.send_signal(how)
            self.process.wait(30)
            self.process = None

    def url(self, name: str) -> str:
        return f"postgresql://plughost@/{name}?host={self.folder}"

    async def create(self) -> str:
        """The URL of a new, empty database."""
        import asyncpg

        name = f"test_{secrets.token_hex(6)}"
        connection = await asyncpg.connect(self.url("postgres"))
        try:
            await connection.execute(f"CREATE DATABASE {name}")
        finally:
            await connection.close()
        return self.url(name)


@contextmanager
def server(settings: dict[str, str] | None = None) -> Iterator[Server]:
    """A running server. Skips the test, with the reason, where PostgreSQL is not installed; never in CI."""
    if programs() is None:
        assert not os.environ.get("CI"), "make setup installs PostgreSQL"
        pytest.skip("PostgreSQL is not installed (Debian: apt-get install postgresql)")
    folder = Path(tempfile.mkdtemp(prefix="plughost-pg-", dir="/tmp"))  # a socket's path is short
    try:
        running = Server(folder, settings)
        try:
            yield running
        finally:
            running.stop()
    finally:
        shutil.rmtree(folder)


def new_database(running: Server) -> str:
    return asyncio.run(running.create())


@asynccontextmanager
async def connected(database: Database) -> AsyncIterator[Any]:
    """A connection to the server of a `PostgresDatabase`, for statements that it does not execute itself."""
    assert isinstance(database, PostgresDatabase)
    await database.open()
    connection = await database._connect()
    try:
        yield connection
    finally:
        connection.terminate()
