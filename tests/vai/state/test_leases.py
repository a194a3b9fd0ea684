"""Leases of processes: renewed while the process lives, ended by others when it is gone."""

import asyncio
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from plughost.testing.clock import VirtualClock
from plughost.vai.database.database import Database
from plughost.vai.database.errors import DatabaseUnavailable
from plughost.vai.database.open_database import open_database
from plughost.vai.database.statements import statement
from plughost.vai.state.leases import HEARTBEATS, LEASE_SECONDS, ProcessLease
from tests.support import until
from tests.support.postgres import Server
from tests.vai.state.test_deliveries import LosingProxy

LEAVE = statement("leave", {None: "INSERT INTO leases VALUES ('gone.0', 'gone', 0)"})
BREAK = statement("break", {None: "ALTER TABLE deliveries RENAME TO elsewhere"})
REPAIR = statement("repair", {None: "ALTER TABLE elsewhere RENAME TO deliveries"})
LEASES = statement("leases", {None: "SELECT lease, expires_at FROM leases ORDER BY lease"})


async def leases(database: Database) -> dict[str, float]:
    return {row["lease"]: row["expires_at"] for row in (await database.read(LEASES())).rows}


async def test_a_lease_is_renewed_also_if_its_process_failed_to_end_those_of_others(
    database: Database,
) -> None:
    clock = VirtualClock()
    await database.write(LEAVE())
    await database.write(BREAK())
    lease = ProcessLease(database, "host", clock)
    with pytest.raises(DatabaseUnavailable):
        await lease.acquire()
    await database.write(REPAIR())
    before = await leases(database)
    assert [*before] == ["gone.0", "host.0"]
    taken_back: list[bool] = []
    lease.on_taken_back.append(lambda: taken_back.append(True))
    clock.advance(LEASE_SECONDS / HEARTBEATS)
    await until(lambda: taken_back)
    after = await leases(database)
    assert [*after] == ["host.0"]
    assert after["host.0"] > before["host.0"]
    await lease.close()


async def test_a_lease_whose_commit_got_no_answer_is_acquired_again(tmp_path: Path, postgres: Server) -> None:
    proxy = LosingProxy(tmp_path, postgres)
    name = urlsplit(await postgres.create()).path
    async with await asyncio.start_unix_server(proxy.serve, proxy.path):
        database = open_database("unused", f"postgresql://plughost@{name}?host={tmp_path}")
        await database.open()
        lease = ProcessLease(database, "host", VirtualClock())
        proxy.lose_next_commit = True
        with pytest.raises(DatabaseUnavailable):
            await lease.acquire()
        assert [*await leases(database)] == ["host.0"], "it is stored"
        assert await lease.acquire() == "host.0"
        await lease.close()
        await database.close()
