"""Leases: how processes that share a database notice that one of them is gone, and take over its work.

A process has a lease and renews it. A process that does not renew its lease, because it was killed or
suspended, loses it: another process ends the lease and, in the same transaction, takes back everything that
was claimed under it. A claim carries its lease, and the statements `settle` and `give_back` of deliveries
check it (fencing): a process that wakes up later cannot settle what others have taken. It gets a new lease
and goes on.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from plughost.clock import Clock
from plughost.vai.background import BackgroundTask
from plughost.vai.database.database import Database, Steps
from plughost.vai.database.statements import load_statements
from plughost.vai.records.records import presume_ended
from plughost.vai.state.runs import END_ORPHANS

_SQL = load_statements(__file__)
ACQUIRE, RENEW, HOLD, END, END_EXPIRED, END_OF_HOST, TAKE_BACK = (
    _SQL[name] for name in ("acquire", "renew", "hold", "end", "end_expired", "end_of_host", "take_back")
)

LEASE_SECONDS = 15.0
"""Seconds after its last heartbeat until a process counts as gone."""
CHANNEL = "plughost_leases"
"""The channel on which a process tells others that it gave its lease up."""
HEARTBEATS = 3
"""Heartbeats within the time of a lease."""


class ProcessLease:
    """The lease of this process. Nothing is stored before `acquire`."""

    def __init__(self, database: Database, host: str, clock: Clock, seconds: float = LEASE_SECONDS) -> None:
        self._database = database
        self._host = host
        self._seconds = seconds
        self._number = 0
        self._held = False
        self._acquiring = asyncio.Lock()
        self._closed = False
        self._heartbeats = BackgroundTask(
            self._heartbeat,
            clock,
            failure="the lease of this process was not renewed",
            retry_seconds=seconds / HEARTBEATS,
        )
        self.on_taken_back: list[Callable[[], object]] = []
        """Called when what another process had claimed is free again."""
        self.on_lost: list[Callable[[], object]] = []
        """Called when this process has lost its lease and has a new one."""
        database.listen(CHANNEL, self._on_released)

    @property
    def name(self) -> str:
        """The name under which this process claims; another one after each loss."""
        return f"{self._host}.{self._number}"

    async def acquire(self) -> str:
        """The name of the lease, which is acquired first if this process has none."""
        if not self._held:
            async with self._acquiring:
                if not self._held and not self._closed:
                    await self._database.write_unsynced(
                        ACQUIRE(lease=self.name, host=self._host, seconds=self._seconds)
                    )
                    self._held = True
                    # First: a lease without heartbeats is lost, whatever fails here.
                    self._heartbeats.wake_in(self._seconds / HEARTBEATS)
                    await self._end_expired()
        return self.name

    async def close(self) -> None:
        """Gives the lease up; what it still has is taken back, for others."""
        self._closed = True
        await self._heartbeats.close()
        if self._held:
            self._held = False
            await self._database.write(self._end_own, self.name)
            self._database.announce(CHANNEL)

    def _end_own(self, name: str) -> Steps[None]:
        yield END(lease=name)
        yield TAKE_BACK(lease=name)

    async def _heartbeat(self) -> float:
        if not (await self._database.write_unsynced(RENEW(lease=self.name, seconds=self._seconds))).rows:
            self._number += 1
            await self._database.write_unsynced(
                ACQUIRE(lease=self.name, host=self._host, seconds=self._seconds)
            )
            for callback in self.on_lost:
                callback()
        await self._end_expired()
        return self._seconds / HEARTBEATS

    async def _end_expired(self) -> None:
        if await self._database.write(_end_expired, self.name):
            self._on_released()

    def _on_released(self) -> None:
        for callback in self.on_taken_back:
            callback()


def end_host(host: str) -> Steps[None]:
    """Ends the leases of a host that is known to have ended, and everything that it left."""
    for row in (yield END_OF_HOST(host=host)).rows:
        yield TAKE_BACK(lease=row["lease"])
    yield from _end_work(host)


def _end_expired(own: str) -> Steps[int]:
    expired = (yield END_EXPIRED(own=own)).rows
    for row in expired:
        yield TAKE_BACK(lease=row["lease"])
        yield from _end_work(row["host"])
    return len(expired)


def _end_work(host: str) -> Steps[None]:
    yield from presume_ended(host)
    yield END_ORPHANS(now=time.time())
