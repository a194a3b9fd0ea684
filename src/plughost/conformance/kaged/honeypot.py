"""A honeypot: files and a server that nobody granted, to detect a plugin that escapes its sandbox."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from plughost.host import Host
from plughost.sandbox.untrusted_temp_dir import READABLE, make_folder, set_mode, temporary_folder
from plughost.services.storage.service import Storage

FOLDER = "PLUGHOST_BAIT_FOLDER"
PORT = "PLUGHOST_BAIT_PORT"
SECRET = "secret"
PROGRAM = "program"


class Honeypot:
    """A folder that every user may read and write, with a program in it, and a server."""

    def __init__(self, root: Path) -> None:
        root = root.resolve()
        self._root = root
        self._folder = root / "bait"
        self._visits = 0
        self.data = str(root / "data")
        make_folder(str(self._folder), 0o777)
        os.mkdir(self.data)
        (self._folder / SECRET).write_text("not for plugins\n")
        with (self._folder / PROGRAM).open("w") as program:
            program.write("#!/bin/sh\n")
            os.fchmod(program.fileno(), 0o755)
        set_mode(str(root), READABLE)  # last: until then no other user can reach its contents
        self._initial_entries = sorted(os.listdir(self._folder))

    async def open(self) -> asyncio.Server:
        """Starts the server."""
        server = await asyncio.start_server(self._on_connect, "127.0.0.1", 0)
        self.env = {FOLDER: str(self._folder), PORT: str(server.sockets[0].getsockname()[1])}
        return server

    def _on_connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._visits += 1
        writer.close()

    def is_meant(self, denial: str) -> bool:
        """Whether a denial is about our server: a plugin that looks for it is not at fault."""
        return denial.startswith(f"connect 127.0.0.1:{self.env[PORT]}: ")

    def prepare(self, host: Host) -> None:
        """Gives the host a separate storage, so that the trial does not touch the plugin's real data."""
        host.provide("storage", Storage(self._root / "storage"))

    def taken(self) -> list[str]:
        """Descriptions of what the plugin reached, as far as it can be seen from here."""
        written = sorted(os.listdir(self._folder)) != self._initial_entries
        return ["a file that it wrote"] * written + ["a server that it reached"] * bool(self._visits)


@asynccontextmanager
async def open_honeypot() -> AsyncIterator[Honeypot]:
    """Sets up a honeypot for the duration of a context."""
    with temporary_folder("plughost-conform-") as root:
        bait = Honeypot(Path(root))
        async with await bait.open():
            yield bait
