"""ConnectionPool: connections to a PostgreSQL server that are used again, the last one first.

asyncpg's own pool takes longer for a small statement than the statement itself: it cleans a connection after
each use, with tasks and timers. Transactions here leave nothing behind in a connection, so a stack is enough.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any

IDLE_SECONDS = 300.0
"""Seconds after which a connection that nobody used is closed."""
CLOSE_SECONDS = 10.0
"""Seconds for the server to answer the end of a connection."""


class ConnectionPool:
    """At most `size` connections, each made at its first need."""

    def __init__(self, connect: Callable[[], Awaitable[Any]], size: int, wait_seconds: float) -> None:
        self._connect = connect
        self._size = size
        self._wait_seconds = wait_seconds
        self._count = 0
        self._idle: list[tuple[Any, float]] = []
        """With the time of the last use; the last used is the last one."""
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._closed = False

    async def acquire(self) -> Any:
        """A connection that nobody else uses. TimeoutError when none becomes free in time."""
        while True:
            while self._idle:
                connection, _ = self._idle.pop()
                if not connection.is_closed():
                    return connection
                self._count -= 1
            if self._count < self._size:
                return await self._open()
            await self._wait()

    def release(self, connection: Any) -> None:
        """Gives a connection back. It must not be within a transaction; a closed one is forgotten."""
        now = time.monotonic()
        if connection.is_closed():
            self._count -= 1
        elif self._closed:
            self._count -= 1
            connection.terminate()
        else:
            self._idle.append((connection, now))
            first, used_at = self._idle[0]
            if now - used_at > IDLE_SECONDS:
                del self._idle[0]
                self._count -= 1
                first.terminate()
        self._wake_next()

    async def close(self) -> None:
        """Closes all connections that are not in use; the others when they are released."""
        self._closed = True
        idle, self._idle = self._idle, []
        self._count -= len(idle)
        try:
            async with asyncio.timeout(CLOSE_SECONDS):
                for connection, _ in idle:
                    await connection.close()
        except Exception:  # the server does not answer: the sockets are closed all the same
            for connection, _ in idle:
                connection.terminate()

    async def _open(self) -> Any:
        self._count += 1
        try:
            return await self._connect()
        except BaseException:
            self._count -= 1
            self._wake_next()
            raise

    async def _wait(self) -> None:
        waiter = asyncio.get_running_loop().create_future()
        self._waiting.append(waiter)
        try:
            async with asyncio.timeout(self._wait_seconds):
                await waiter
        except BaseException:
            if waiter.done() and not waiter.cancelled():
                self._wake_next()  # it was its turn, which somebody else gets now
            elif waiter in self._waiting:
                self._waiting.remove(waiter)
            raise

    def _wake_next(self) -> None:
        while self._waiting:
            waiter = self._waiting.popleft()
            if not waiter.done():
                waiter.set_result(None)
                return
