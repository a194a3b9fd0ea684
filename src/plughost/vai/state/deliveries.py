"""Webhook-like delivery of events to hooks: stored first, retried with backoff until acknowledged or dead.

An attempt is counted in the database before it is made. So a host that is killed during an attempt makes the
next one with a higher number and the same delivery_id (at-least-once delivery).
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import secrets
import sqlite3
import time
from collections.abc import Awaitable, Callable, Iterable

import msgspec

from plughost.clock import Clock, Timer
from plughost.contracts.vai.request_bodies import HookEvent
from plughost.errors import InvalidSpec
from plughost.vai.bindings.binding import Scope
from plughost.vai.retry_policy import Backoff
from plughost.vai.sqlite import SqliteDatabase

FILE = "deliveries.db"
LOCK = "deliveries.lock"
RETRY_SECONDS = 5.0
"""Seconds until another attempt to use the database, or to take over from the host that delivers."""
MIGRATIONS = (
    (
        """CREATE TABLE deliveries (delivery_id PRIMARY KEY, binding_id NOT NULL, project_id, event NOT NULL,
            attempt INTEGER NOT NULL DEFAULT 0, due_at REAL, status NOT NULL DEFAULT 'pending', why,
            UNIQUE (binding_id, event)) WITHOUT ROWID""",
        "CREATE INDEX due ON deliveries (due_at) WHERE status = 'pending'",
    ),
    ("ALTER TABLE deliveries ADD COLUMN org_id NOT NULL DEFAULT ''",),
)
INSERT = """INSERT OR IGNORE INTO deliveries (delivery_id, binding_id, org_id, project_id, event, due_at)
    VALUES (?, ?, ?, ?, ?, ?)"""
PENDING = "SELECT * FROM deliveries WHERE status = 'pending' ORDER BY due_at"
BEGIN = "UPDATE deliveries SET attempt = attempt + 1, status = 'under way' WHERE delivery_id = ?"
SETTLE = "UPDATE deliveries SET status = ?, due_at = ?, why = ? WHERE delivery_id = ?"
REPLAY = """UPDATE deliveries SET status = 'pending', attempt = 0, due_at = ?
    WHERE delivery_id = ? AND status = 'dead'"""
REQUEUE = "UPDATE deliveries SET status = 'pending' WHERE status = 'under way'"

MAX_CONCURRENT = 16
"""Concurrent deliveries."""


class Delivery(msgspec.Struct, frozen=True, kw_only=True):
    """One event on its way to one binding, with its attempts and status."""

    delivery_id: str
    binding_id: str
    org_id: str
    project_id: str | None = None
    """The project of the event, also for a binding of the whole organisation."""
    event: HookEvent
    attempt: int
    due_at: float | None
    """Time of the next attempt, in seconds since 1970; None when there is none."""
    status: str
    """pending, under way, acknowledged or dead."""
    why: str | None = None
    """The reason why the last attempt failed."""

    @property
    def scope(self) -> Scope:
        return Scope(self.org_id, self.project_id)


Deliver = Callable[[Delivery], Awaitable[tuple[str, str | None]]]
"""Makes one attempt: returns the status of its invocation, and why it is not `succeeded`."""


class Deliveries:
    """The delivery queue of a folder. Delivers after `start`, and only to tenants that this host serves.

    `now` is the wall clock.
    """

    def __init__(
        self,
        folder: str,
        deliver: Deliver,
        clock: Clock,
        *,
        serves: Callable[[Scope], bool],
        backoff: Backoff | None = None,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._folder = folder
        self._lock = -1
        self._database = SqliteDatabase(os.path.join(folder, FILE), MIGRATIONS)
        self._deliver = deliver
        self._serves = serves
        self._clock = clock
        self._backoff = backoff or Backoff()
        self._now = now
        self._attempts: set[asyncio.Task[None]] = set()
        self._unsaved: list[tuple[str, float | None, str | None, str]] = []
        """Results of attempts that are not in the database yet."""
        self._task: asyncio.Task[None] | None = None
        self._wake_again = False
        self._timer: Timer | None = None
        self._started = False

    @property
    def exists(self) -> bool:
        """Whether the file exists: this host or an earlier one had something to deliver."""
        return os.path.exists(os.path.join(self._folder, FILE))

    async def publish(self, event: HookEvent, binding_ids: Iterable[str], scope: Scope) -> list[str]:
        """Stores a delivery for each binding and returns their ids; an event is stored once per binding."""
        encoded = msgspec.json.encode(event)
        rows = [
            (f"del_{secrets.token_hex(12)}", binding_id, scope.org_id, scope.project_id, encoded, self._now())
            for binding_id in binding_ids
        ]

        def insert(connection: sqlite3.Connection) -> list[str]:
            return [row[0] for row in rows if connection.execute(INSERT, row).rowcount]

        ids = await self._database.do(insert)
        self._wake()
        return ids

    def start(self) -> None:
        """Starts to deliver what is due, including what an earlier host left."""
        self._started = True
        self._wake()

    async def all(self, status: str | None = None) -> list[Delivery]:
        """All deliveries, or those with a status: `dead` for the dead letters."""
        where = "" if status is None else "WHERE status = ?"
        values = () if status is None else (status,)
        return await self._database.do(
            lambda connection: [
                _delivery(row)
                for row in connection.execute(
                    f"SELECT * FROM deliveries {where} ORDER BY delivery_id", values
                )
            ]
        )

    async def replay(self, delivery_id: str) -> None:
        """Retries a dead letter, from its first attempt on."""
        values = (self._now(), delivery_id)
        if not await self._database.run(REPLAY, values):
            raise InvalidSpec(f"there is no dead letter {delivery_id}")
        self._wake()

    async def close(self) -> None:
        """Cancels running attempts; the next host makes them again."""
        self._started = False
        if self._timer is not None:
            self._timer.cancel()
        tasks = [*self._attempts, *([self._task] if self._task else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._database.close()
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    def _wake(self) -> None:
        if not self._started:
            return
        if self._task is not None:
            self._wake_again = True
            return
        self._task = asyncio.get_running_loop().create_task(self._begin_due())
        self._task.add_done_callback(self._on_task_done)

    def _on_task_done(self, task: asyncio.Task[None]) -> None:
        self._task = None
        if self._report_failure(task):
            self._wake_at(self._now() + RETRY_SECONDS)
        elif self._wake_again:
            self._wake_again = False
            self._wake()

    def _report_failure(self, task: asyncio.Task[None]) -> bool:
        """Whether the database could not be used; reports that to the loop's exception handler."""
        error = None if task.cancelled() else task.exception()
        if error is None:
            return False
        context = {"message": "deliveries are waiting for their database", "exception": error}
        asyncio.get_running_loop().call_exception_handler(context)
        return self._started

    async def _begin_due(self) -> None:
        if not await self._acquire_lock():
            self._wake_at(self._now() + RETRY_SECONDS)
            return
        await self._save_results()
        now, room = self._now(), MAX_CONCURRENT - len(self._attempts)
        due, next_due = await self._database.do(
            lambda connection: _begin(connection, self._serves, now, room)
        )
        for delivery in due:
            task = asyncio.get_running_loop().create_task(self._attempt(delivery))
            self._attempts.add(task)
            task.add_done_callback(self._on_attempt_done)
        if next_due is not None and len(self._attempts) < MAX_CONCURRENT:
            self._wake_at(next_due)

    async def _acquire_lock(self) -> bool:
        """Whether this host delivers: of several hosts that share the file, the one that holds the lock."""
        if self._lock < 0:
            os.makedirs(self._folder, 0o700, exist_ok=True)
            lock = os.open(os.path.join(self._folder, LOCK), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(lock)
                return False
            self._lock = lock
            await self._database.run(REQUEUE)
        return True

    def _wake_at(self, time_of_day: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        when = self._clock.time() + max(time_of_day - self._now(), 0.0)
        self._timer = self._clock.call_at(when, self._wake)

    def _on_attempt_done(self, task: asyncio.Task[None]) -> None:
        self._attempts.discard(task)
        if self._report_failure(task):
            self._wake_at(self._now() + RETRY_SECONDS)
        else:
            self._wake()

    async def _attempt(self, delivery: Delivery) -> None:
        try:
            status, why = await self._deliver(delivery)
        except Exception as error:  # a fault of the host: it says nothing about the event
            status, why = "retryable_failure", f"{type(error).__name__}: {error}"
        after, due_at = _next_status(status, self._backoff.after(delivery.attempt), self._now())
        self._unsaved.append((after, due_at, why, delivery.delivery_id))
        await self._save_results()

    async def _save_results(self) -> None:
        if unsaved := self._unsaved[:]:
            await self._database.do(lambda connection: connection.executemany(SETTLE, unsaved).rowcount)
            self._unsaved = [each for each in self._unsaved if each not in unsaved]


def _next_status(status: str, delay: float | None, now: float) -> tuple[str, float | None]:
    """The next status of a delivery and when it is due: `failed` is dead at once, other failures are
    retried."""
    if status == "succeeded":
        return "acknowledged", None
    if status == "failed" or delay is None:
        return "dead", None
    return "pending", now + delay


def _begin(
    connection: sqlite3.Connection, serves: Callable[[Scope], bool], now: float, room: int
) -> tuple[list[Delivery], float | None]:
    """Counts and returns the deliveries that are due now, and the time of the next one."""
    due: list[Delivery] = []
    next_due = None
    for row in connection.execute(PENDING):
        if not serves(Scope(row["org_id"], row["project_id"])):
            continue
        if row["due_at"] > now or len(due) >= room:
            next_due = row["due_at"]
            break
        due.append(msgspec.structs.replace(_delivery(row), attempt=row["attempt"] + 1))
    for delivery in due:
        connection.execute(BEGIN, (delivery.delivery_id,))
    return due, next_due


def _delivery(row: sqlite3.Row) -> Delivery:
    return Delivery(**{**dict(row), "event": msgspec.json.decode(row["event"], type=HookEvent)})
