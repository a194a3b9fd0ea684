"""ConnectionPool: a stack of connections, with waiting callers, over connections that are only counted."""

from __future__ import annotations

import asyncio

import pytest

from plughost.vai.database import connection_pool
from plughost.vai.database.connection_pool import ConnectionPool


class Connection:
    def __init__(self) -> None:
        self.closed = False

    def is_closed(self) -> bool:
        return self.closed

    def terminate(self) -> None:
        self.closed = True

    async def close(self) -> None:
        self.closed = True


class Server:
    """Makes connections; fails while `error` is set."""

    def __init__(self) -> None:
        self.made: list[Connection] = []
        self.error: Exception | None = None

    async def connect(self) -> Connection:
        await asyncio.sleep(0)
        if self.error is not None:
            raise self.error
        self.made.append(Connection())
        return self.made[-1]


@pytest.fixture
def server() -> Server:
    return Server()


def pool_of(server: Server, size: int = 2, wait: float = 5.0) -> ConnectionPool:
    return ConnectionPool(server.connect, size, wait)


async def test_the_connection_that_was_used_last_is_used_next(server: Server) -> None:
    pool = pool_of(server)
    first, second = await pool.acquire(), await pool.acquire()
    pool.release(first)
    pool.release(second)
    assert await pool.acquire() is second
    assert len(server.made) == 2


async def test_who_waits_gets_the_connection_that_is_released(server: Server) -> None:
    pool = pool_of(server, size=1)
    first = await pool.acquire()
    waiting = [asyncio.create_task(pool.acquire()) for _ in range(2)]
    await asyncio.sleep(0)
    pool.release(first)
    assert await waiting[0] is first
    pool.release(first)
    assert await waiting[1] is first
    assert len(server.made) == 1


async def test_a_cancelled_caller_passes_its_turn_on(server: Server) -> None:
    pool = pool_of(server, size=1)
    first = await pool.acquire()
    cancelled, patient = asyncio.create_task(pool.acquire()), asyncio.create_task(pool.acquire())
    await asyncio.sleep(0)
    pool.release(first)
    cancelled.cancel()
    assert await patient is first
    assert cancelled.cancelled()


async def test_a_lost_connection_is_replaced(server: Server) -> None:
    pool = pool_of(server, size=1)
    first = await pool.acquire()
    pool.release(first)
    first.closed = True
    second = await pool.acquire()
    second.closed = True
    pool.release(second)
    assert not (await pool.acquire()).closed
    assert len(server.made) == 3


async def test_a_server_that_refuses_leaves_the_place_to_others(server: Server) -> None:
    pool = pool_of(server, size=1)
    server.error = OSError("no")
    for _ in range(3):
        with pytest.raises(OSError, match="no"):
            await pool.acquire()
    server.error = None
    await pool.acquire()


async def test_nobody_waits_for_ever(server: Server) -> None:
    pool = pool_of(server, size=1, wait=0.01)
    first = await pool.acquire()
    with pytest.raises(TimeoutError):
        await pool.acquire()
    pool.release(first)
    assert await pool.acquire() is first


async def test_idle_connections_are_closed_after_a_while(server: Server, monkeypatch) -> None:
    pool = pool_of(server)
    first, second = await pool.acquire(), await pool.acquire()
    pool.release(first)
    monkeypatch.setattr(connection_pool, "IDLE_SECONDS", -1.0)
    pool.release(second)
    assert (first.closed, second.closed) == (True, False)


async def test_after_close_nothing_stays_open(server: Server) -> None:
    pool = pool_of(server)
    used, idle = await pool.acquire(), await pool.acquire()
    pool.release(idle)
    await pool.close()
    pool.release(used)
    assert all(connection.closed for connection in server.made)
