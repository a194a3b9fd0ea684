"""Webhook-like delivery of events to hooks: stored first, retried with backoff until acknowledged or dead.

An attempt is counted in the database before it is made. So a host that is killed during an attempt makes the
next one with a higher number and the same delivery_id (at-least-once delivery). Deliveries are claimed and
settled in batches. Each binding has a queue of its own, and `FairShare` decides whose turn it is.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterable

import msgspec

from plughost.clock import Clock
from plughost.contracts.vai.request_bodies import HookEvent
from plughost.errors import InvalidSpec
from plughost.vai.background import BackgroundTask
from plughost.vai.bindings.binding import Scope
from plughost.vai.bindings.bindings import Bindings
from plughost.vai.database.database import Database
from plughost.vai.fair_share import FairShare
from plughost.vai.retry_policy import HOOK_DELIVERIES, Backoff
from plughost.vai.state.delivery_table import (
    ALL,
    DUE,
    DUE_OF,
    GIVE_BACK_UNKNOWN,
    REPLAY,
    TENANTS,
    AttemptResult,
    Claims,
    Delivery,
    claim_keys,
    delivery_of,
    new_delivery_id,
    publish,
    save,
    save_and_claim,
)
from plughost.vai.state.leases import ProcessLease

CHANNEL = "plughost_deliveries"
"""The channel on which processes tell each other of new deliveries."""
LOOK_SECONDS = 5.0
"""Seconds until the next look after the database failed, and between looks for what others have left."""
MAX_CONCURRENT = 16
"""Concurrent deliveries."""
RESERVED = 4
"""Further ones, for tenants of which none is being delivered."""
MAX_CLAIMED = 512
"""Deliveries that are claimed ahead, at most."""
QUICKLY = 0.1
"""If what was claimed is over within this many seconds, twice as much is claimed the next time."""
STRAYS_EVERY = 60.0
"""Seconds between looks for deliveries whose binding is gone."""

Deliver = Callable[[Delivery], Awaitable[tuple[str, str | None]]]
"""Makes one attempt: returns the status of its invocation, and why it is not `succeeded`."""


class _Queue:
    """The deliveries to one binding, as far as this process knows them."""

    __slots__ = ("binding_id", "claimed", "has_news", "next_due", "tenant")

    def __init__(self, binding_id: str, tenant: str) -> None:
        self.binding_id = binding_id
        self.tenant = tenant
        self.claimed: deque[Delivery] = deque()
        self.next_due: float | None = None
        """When the first delivery in the database is due, that this process knows of."""
        self.has_news = False
        """Whether that was learned after the last claim began, which cannot know of it."""

    def expect(self, due_at: float) -> None:
        """Notes that there is a delivery, or will be, that is due then."""
        self.has_news = True
        self.next_due = due_at if self.next_due is None else min(self.next_due, due_at)


class Deliveries:
    """The delivery queues of a database. Delivers after `start`, and only to bindings of this host.

    `now` is the wall clock.
    """

    def __init__(
        self,
        database: Database,
        lease: ProcessLease,
        deliver: Deliver,
        clock: Clock,
        *,
        bindings: Bindings,
        backoff: Backoff | None = None,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._database = database
        self._lease = lease
        self._deliver = deliver
        self._bindings = bindings
        self._clock = clock
        self._backoff = backoff or HOOK_DELIVERIES
        self._now = now
        self._queues: dict[str, _Queue] = {}
        self._ready: dict[str, _Queue] = {}
        """Queues of which something is claimed and not begun."""
        self._share: FairShare[str] = FairShare(MAX_CONCURRENT, RESERVED)
        self._attempts: dict[asyncio.Task[None], int] = {}
        """With the number of the delivery."""
        self._results: list[AttemptResult] = []
        """Results of attempts that are not in the database yet."""
        self._ahead = MAX_CONCURRENT
        self._claimed_at = 0.0
        self._stale = True
        """Whether the database may have deliveries that this process does not know of."""
        self._may_have_unknown = False
        """Whether a claim failed: it is stored all the same, if only the answer to its commit was lost."""
        self._look_for_strays_at = 0.0
        self._look_at = 0.0
        """When to look for deliveries that others have left, by the clock."""
        self._started = False
        self._task = BackgroundTask(
            self._work,
            clock,
            failure="deliveries are waiting for their database",
            retry_seconds=LOOK_SECONDS,
        )
        lease.on_taken_back.append(self.refresh)
        lease.on_lost.extend((self._forget_claims, self.refresh))
        database.listen(CHANNEL, self.refresh)

    async def publish(self, event: HookEvent, binding_ids: Iterable[str], scope: Scope) -> list[str]:
        """Stores an event with a delivery for each binding, and returns their ids."""
        ids = {binding_id: new_delivery_id() for binding_id in binding_ids}
        await self._database.write(publish, scope, event, ids, self._now())
        self.expect(ids)
        return [*ids.values()]

    def expect(self, binding_ids: Iterable[str]) -> None:
        """Notes that bindings have new deliveries that are due, which were stored just now."""
        now, own = self._now(), self._bindings.ids()
        for binding_id in binding_ids:
            if own is None or binding_id in own:
                self._queue(binding_id).expect(now)
            else:  # whether its tenant is this host's, the database knows
                self._look_for_strays_at = 0.0
                self._stale = True
        self._wake()

    def start(self) -> None:
        """Starts to deliver what is due, including what an earlier host left."""
        self._started = True
        self.refresh()

    def refresh(self) -> None:
        """Looks for deliveries that another process has stored or left."""
        self._stale = True
        self._wake()

    async def all(self, status: str | None = None) -> list[Delivery]:
        """All deliveries, or those with a status: `dead` for the dead letters."""
        rows = (await self._database.read(ALL(status=status))).rows
        return [delivery_of(row, msgspec.json.decode(row["event"], type=HookEvent)) for row in rows]

    async def replay(self, delivery_id: str) -> None:
        """Retries a dead letter, from its first attempt on."""
        row = (await self._database.write(REPLAY(delivery_id=delivery_id, now=self._now()))).first()
        if row is None:
            raise InvalidSpec(f"there is no dead letter {delivery_id}")
        self.expect([row["binding_id"]])
        self._database.announce(CHANNEL)

    async def close(self) -> None:
        """Cancels running attempts; the next host makes them again."""
        self._started = False
        for task in self._attempts:
            task.cancel()
        await self._task.close(cancel=True)
        await asyncio.gather(*self._attempts, return_exceptions=True)
        unused = [
            claim_keys(each, self._lease.name) for queue in self._ready.values() for each in queue.claimed
        ]
        self._forget_claims()
        try:
            await self._database.write(save, self._take_results(), unused)
        except Exception as error:  # the lease ends, and with it the claims
            self._task.report(error)

    def _queue(self, binding_id: str) -> _Queue:
        if (queue := self._queues.get(binding_id)) is None:
            binding = self._bindings.by_id(binding_id)
            tenant = binding_id if binding is None else binding.scope.org_id
            queue = self._queues[binding_id] = _Queue(binding_id, tenant)
        return queue

    def _forget_claims(self) -> None:
        """Drops what was claimed and not begun: the lease is lost, or the host closes."""
        for queue in self._ready.values():
            queue.claimed.clear()
        self._ready.clear()
        self._stale = True

    def _wake(self) -> None:
        if self._started:
            self._task.wake()

    async def _work(self) -> float:
        """Stores results, claims what is due and begins attempts. Returns the seconds until the next look."""
        now = self._now()
        if self._may_have_unknown:
            await self._database.write(GIVE_BACK_UNKNOWN(lease=self._lease.name, known=self._known()))
            self._may_have_unknown = False
        if self._stale or self._clock.time() >= self._look_at:
            await self._look(now)
        wanted = self._wanted(now)
        if wanted:
            await self._lease.acquire()
        if wanted or self._results:
            results = self._take_results()
            for binding_id, _ in wanted:
                self._queue(binding_id).has_news = False
            lease = self._lease.name
            try:
                claims = await self._database.write(save_and_claim, results, wanted, lease, now)
            except BaseException:
                self._results[:0] = results
                self._may_have_unknown = self._stale = True
                raise
            if lease == self._lease.name:  # else these claims ended with it
                self._keep(claims, now)
        self._begin_attempts()
        later = [queue.next_due for queue in self._queues.values() if (queue.next_due or 0.0) > now]
        next_due = min([at for at in later if at is not None], default=now + LOOK_SECONDS)
        delay = min(max(next_due - self._now(), 0.0), LOOK_SECONDS)
        self._look_at = self._clock.time() + delay
        return delay

    def _known(self) -> list[int]:
        """The numbers of the deliveries that this process has claimed, as far as it knows."""
        claimed = [each.number for queue in self._ready.values() for each in queue.claimed]
        return [*claimed, *self._attempts.values(), *(each.number for each in self._results)]

    async def _look(self, now: float) -> None:
        """Asks the database which queues have deliveries, and when the first of each is due."""
        self._stale = False
        try:
            ids = self._bindings.ids()
            if ids is None or now >= self._look_for_strays_at:
                self._look_for_strays_at = now + STRAYS_EVERY
                found = (await self._database.read(DUE())).rows
            else:
                known = {*ids, *self._queues}
                found = (await self._database.read(DUE_OF(ids=[*known]))).rows
            due = {row["binding_id"]: row["due_at"] for row in found if row["due_at"] is not None}
            for binding_id, at in due.items():
                if ids is None or binding_id in ids or await self._serves_stray(binding_id):
                    self._queue(binding_id).expect(at)
        except BaseException:
            self._stale, self._look_for_strays_at = True, 0.0
            raise

    async def _serves_stray(self, binding_id: str) -> bool:
        """Whether the deliveries of a binding that is gone belong to tenants of this host."""
        rows = (await self._database.read(TENANTS(binding_id=binding_id))).rows
        return any(self._bindings.serves(Scope(row["org_id"], row["project_id"] or None)) for row in rows)

    def _wanted(self, now: float) -> list[tuple[str, int]]:
        """How many deliveries to claim, for each queue that has some. One that has enough gets no more."""
        due = [
            queue
            for queue in self._queues.values()
            if queue.next_due is not None and queue.next_due <= now and len(queue.claimed) < self._ahead // 2
        ]
        if not due:
            return []
        due.sort(key=lambda queue: self._share.load(queue.tenant, queue.binding_id))
        claimed = sum(len(queue.claimed) for queue in self._ready.values())
        each = max(self._ahead // len(due), 1)
        room = max(self._ahead - claimed, 0)
        # A queue of which nothing is claimed gets one delivery at least: its tenant may have a slot reserved.
        wanted = [
            (queue.binding_id, min(each, room) or int(not queue.claimed)) for queue in due[: self._ahead]
        ]
        return [(binding_id, count) for binding_id, count in wanted if count]

    def _keep(self, claims: Claims, now: float) -> None:
        for delivery in claims.deliveries:
            queue = self._ready[delivery.binding_id] = self._queue(delivery.binding_id)
            queue.claimed.append(delivery)
        for binding_id, next_due in claims.next_due.items():
            if not (queue := self._queue(binding_id)).has_news:
                queue.next_due = next_due
        if claims.deliveries:
            quickly = now - self._claimed_at < QUICKLY
            self._ahead = (
                min(self._ahead * 2, MAX_CLAIMED) if quickly else max(self._ahead // 2, MAX_CONCURRENT)
            )
            self._claimed_at = now

    def _begin_attempts(self) -> None:
        while self._started and self._ready:
            queue = min(self._ready.values(), key=lambda each: self._share.load(each.tenant, each.binding_id))
            if not self._share.enter(queue.tenant, queue.binding_id):
                return
            delivery = queue.claimed.popleft()
            if not queue.claimed:
                del self._ready[queue.binding_id]
            task = asyncio.get_running_loop().create_task(self._attempt(queue, delivery, self._lease.name))
            self._attempts[task] = delivery.number
            task.add_done_callback(self._attempts.pop)

    async def _attempt(self, queue: _Queue, delivery: Delivery, lease: str) -> None:
        try:
            try:
                status, why = await self._deliver(delivery)
            except Exception as error:  # a fault of the host: it says nothing about the event
                status, why = "retryable_failure", f"{type(error).__name__}: {error}"
            why = why and why.replace("\0", "\ufffd")
        finally:
            self._share.leave(queue.tenant, queue.binding_id)
        now = self._now()
        after, due_at = _next_status(status, self._backoff.after(delivery.attempt), now)
        self._results.append(
            AttemptResult(
                delivery.number,
                lease,
                delivery.attempt,
                after,
                due_at,
                why,
                None if after == "pending" else now,
            )
        )
        if due_at is not None:
            queue.expect(due_at)
        self._begin_attempts()
        self._wake()

    def _take_results(self) -> list[AttemptResult]:
        results, self._results = self._results, []
        return results


def _next_status(status: str, delay: float | None, now: float) -> tuple[str, float | None]:
    """The next status of a delivery and when it is due: `failed` is dead at once, other failures are
    retried."""
    if status == "succeeded":
        return "acked", None
    if status == "failed" or delay is None:
        return "dead", None
    return "pending", now + delay
