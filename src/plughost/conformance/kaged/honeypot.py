"""What nobody granted, and what a plugin that looks for it would find if nothing kept it back."""

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
    """A folder that every user of the machine may read and write, with a program in it, and a server."""

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
        set_mode(str(root), READABLE)  # last: until then nobody else gets at what is in it
        self._laid = sorted(os.listdir(self._folder))

    async def open(self) -> asyncio.Server:
        server = await asyncio.start_server(self._visited, "127.0.0.1", 0)
        self.env = {FOLDER: str(self._folder), PORT: str(server.sockets[0].getsockname()[1])}
        return server

    def _visited(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._visits += 1
        writer.close()

    def is_meant(self, denial: str) -> bool:
        """Whether it is our server that it was kept from: to look for it is no fault."""
        return denial.startswith(f"connect 127.0.0.1:{self.env[PORT]}: ")

    def prepare(self, host: Host) -> None:
        """What it keeps during the trial is not kept among what it keeps otherwise."""
        host.provide("storage", Storage(self._root / "storage"))

    def taken(self) -> list[str]:
        """What can be seen from here of what it got at."""
        written = sorted(os.listdir(self._folder)) != self._laid
        return ["a file that it wrote"] * written + ["a server that it reached"] * bool(self._visits)


@asynccontextmanager
async def baited() -> AsyncIterator[Honeypot]:
    with temporary_folder("plughost-conform-") as root:
        bait = Honeypot(Path(root))
        async with await bait.open():
            yield bait
