"""Control: the control server of a host."""

from __future__ import annotations

import asyncio
import os
import secrets
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Self

from plughost.control.connection import ControlConnection
from plughost.control.credentials import may_control
from plughost.control.managed import ManagedPlugins
from plughost.control.messages import MAX_LINE
from plughost.control.sockets import create_folder, hosts, listen
from plughost.control.verbs import Verbs
from plughost.errors import Overloaded
from plughost.host import Host

MAX_CLIENTS = 256
"""Connections at a time."""
CLOSE_TIMEOUT = 1.0
"""Seconds for clients to read their last answers when the host ends."""


class Control:
    """The control server of a host: `async with Control(host, folder, on_stop)` answers while it is open."""

    def __init__(
        self,
        host: Host,
        folder: Path,
        on_stop: Callable[[], None],
        managed: ManagedPlugins | None = None,
    ) -> None:
        """`on_stop` is called when a client asks the host to stop."""
        self._verbs = Verbs(managed or ManagedPlugins(host), on_stop)
        self._serving: dict[asyncio.Task[None], ControlConnection] = {}
        # Hosts in containers that share the folder may have the same process id.
        self.path = folder / f"{os.getpid()}-{secrets.token_hex(4)}.sock"

    async def __aenter__(self) -> Self:
        create_folder(self.path.parent)
        hosts(self.path.parent)  # removes stale sockets
        listening = listen(self.path)
        self._server = await asyncio.start_unix_server(self._connected, sock=listening, limit=MAX_LINE)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.path.unlink(missing_ok=True)
        self._server.close()
        if serving := dict(self._serving):
            for task, connection in serving.items():
                connection.closing = True
                task.cancel()
            await asyncio.wait(serving, timeout=CLOSE_TIMEOUT)
        await self._verbs.close()

    def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve a connection in a task. The callback closes it, because a task cancelled early never runs."""
        connection = ControlConnection(reader, writer, self._verbs)
        if not may_control(writer.get_extra_info("socket")):
            connection.close()
            return
        if len(self._serving) >= MAX_CLIENTS:
            connection.refuse(Overloaded(f"this host has {MAX_CLIENTS} clients already"))
            connection.close()
            return
        task = asyncio.create_task(connection.serve())
        self._serving[task] = connection
        task.add_done_callback(self._serving.pop)
        task.add_done_callback(lambda _: connection.close())
