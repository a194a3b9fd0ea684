"""PostgresListener: announcements between processes, by LISTEN and NOTIFY on a connection of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

RECONNECT_SECONDS = 0.5
ANNOUNCE_SECONDS = 0.05
"""Announcements within this time are sent as one: each takes a lock of the whole server."""
CLOSE_SECONDS = 1.0
"""Seconds for the last announcements. What they do not reach, others find by themselves, later."""


class PostgresListener:
    """Listens on a connection of its own: a pooled one forgets its listeners. Connects again when the
    connection is lost, and then calls everybody: something may have been missed."""

    def __init__(self, connect: Callable[[], Awaitable[Any]], report: Callable[[Exception], None]) -> None:
        self._connect = connect
        self._report = report
        self._callbacks: dict[str, list[Callable[[], object]]] = {}
        self._to_announce: set[str] = set()
        self._wanted = asyncio.Event()
        self._closing = False
        self._task = asyncio.get_running_loop().create_task(self._serve())

    def add(self, channel: str, callback: Callable[[], object]) -> None:
        self._callbacks.setdefault(channel, []).append(callback)
        self._wanted.set()

    def announce(self, channel: str) -> None:
        for callback in self._callbacks.get(channel, ()):
            callback()
        self._to_announce.add(channel)
        self._wanted.set()

    async def close(self) -> None:
        self._closing = True
        self._wanted.set()
        await asyncio.wait([self._task], timeout=CLOSE_SECONDS)
        self._task.cancel()
        await asyncio.wait([self._task])

    async def _serve(self) -> None:
        told = False
        while self._to_announce or not self._closing:
            try:
                connection = await self._connect()
                try:
                    told = False
                    await self._serve_connection(connection)
                finally:
                    connection.terminate()
            except Exception as error:
                if not told:
                    self._report(error)
                told = True
                await asyncio.sleep(RECONNECT_SECONDS)

    async def _serve_connection(self, connection: Any) -> None:
        connection.add_termination_listener(lambda _: self._wanted.set())
        listening: set[str] = set()
        while True:
            for channel in self._callbacks.keys() - listening:
                await connection.add_listener(channel, self._on_notification)
                listening.add(channel)
                self._call(channel)
            self._wanted.clear()
            to_announce, self._to_announce = self._to_announce, set()
            try:
                for channel in to_announce:
                    await connection.execute(
                        "SELECT pg_notify($1, $2)", channel, str(connection.get_server_pid())
                    )
            except BaseException:
                self._to_announce |= to_announce
                raise
            if connection.is_closed():
                raise ConnectionError("the connection was lost")
            if self._closing:
                return
            await self._wanted.wait()
            if not self._closing:
                await asyncio.sleep(ANNOUNCE_SECONDS)  # others may come

    def _on_notification(self, connection: Any, pid: int, channel: str, payload: Any) -> None:
        if payload != str(connection.get_server_pid()):  # its own were told at once
            self._call(channel)

    def _call(self, channel: str) -> None:
        for callback in self._callbacks.get(channel, ()):
            callback()
