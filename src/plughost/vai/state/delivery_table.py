"""The table of deliveries: an event on its way to a binding, and the transactions over such rows."""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Iterable

import msgspec

from plughost.contracts.vai.request_bodies import HookEvent
from plughost.vai.bindings.binding import Scope
from plughost.vai.database.database import Steps
from plughost.vai.database.statements import Batch, Row, load_statements
from plughost.vai.state import outbox
from plughost.vai.state.leases import HOLD
from plughost.vai.state.tenant_columns import columns

_SQL = load_statements(__file__)
INSERT, DUE, DUE_OF, TENANTS = _SQL["insert"], _SQL["due"], _SQL["due_of"], _SQL["tenants"]
CLAIM, EVENTS, SETTLE, GIVE_BACK = _SQL["claim"], _SQL["events"], _SQL["settle"], _SQL["give_back"]
GIVE_BACK_UNKNOWN, REPLAY, ALL = _SQL["give_back_unknown"], _SQL["replay"], _SQL["all"]


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
    """pending, leased, acked or dead."""
    why: str | None = None
    """The reason why the last attempt failed."""
    number: int = 0
    """Its place in the order in which deliveries were stored."""

    @property
    def scope(self) -> Scope:
        """The tenant of the event."""
        return Scope(self.org_id, self.project_id)


class AttemptResult(msgspec.Struct, frozen=True):
    """The result of an attempt, on its way into the database."""

    number: int
    lease: str
    attempt: int
    status: str
    due_at: float | None
    why: str | None
    settled_at: float | None


class Claims(msgspec.Struct, frozen=True):
    """What a process has claimed, and when queues of which nothing else is due have their next delivery."""

    deliveries: list[Delivery] = []
    next_due: dict[str, float | None] = {}


def new_delivery_id() -> str:
    """A new id for a delivery."""
    return f"del_{secrets.token_hex(12)}"


def insert(rows: Iterable[tuple[str, str, Scope, int]], now: float) -> Batch:
    """Stores deliveries: their id, binding, tenant and the number of their event."""
    return INSERT.each(
        {
            "delivery_id": delivery_id,
            "binding_id": binding_id,
            **columns(scope),
            "event_number": number,
            "due_at": now,
        }
        for delivery_id, binding_id, scope, number in rows
    )


def publish(scope: Scope, event: HookEvent, ids: dict[str, str], now: float) -> Steps[None]:
    """Stores an event with its deliveries; `ids` are those of the deliveries, by binding."""
    number = (yield outbox.insert_handled(scope, event)).value()
    yield insert([(id, binding_id, scope, number) for binding_id, id in ids.items()], now)


def save(results: list[AttemptResult], unused: list[dict[str, object]]) -> Steps[None]:
    """Stores the results of attempts, and gives back what was claimed and not attempted."""
    if results:
        yield SETTLE(results=msgspec.json.encode(results).decode())
    if unused:
        yield GIVE_BACK.each(unused)


def save_and_claim(
    results: list[AttemptResult], wanted: list[tuple[str, int]], lease: str, now: float
) -> Steps[Claims]:
    """Stores results, and claims so many deliveries of each binding that are due."""
    # First, in the order in which others lock them. What is claimed under an ended lease, nobody takes back.
    is_held = bool(wanted and (yield HOLD(lease=lease)).rows)
    yield from save(results, [])
    if not is_held:
        return Claims()
    claims = CLAIM.each(
        {"binding_id": binding_id, "limit": count, "lease": lease, "now": now} for binding_id, count in wanted
    )
    rows = (yield claims).rows
    claimed = Counter(row["binding_id"] for row in rows)
    next_due: dict[str, float | None] = {}
    if short := [binding_id for binding_id, count in wanted if claimed[binding_id] < count]:
        next_due = {row["binding_id"]: row["due_at"] for row in (yield DUE_OF(ids=short)).rows}
    events = {}
    if rows:
        numbers = [*{row["event_number"] for row in rows}]
        events = {
            row["number"]: msgspec.json.decode(row["event"], type=HookEvent)
            for row in (yield EVENTS(numbers=numbers)).rows
        }
    found = [delivery_of(row, events[row["event_number"]]) for row in rows]
    found.sort(key=lambda delivery: (delivery.due_at or 0.0, delivery.number))
    return Claims(found, next_due)


def claim_keys(delivery: Delivery, lease: str) -> dict[str, object]:
    """The columns by which a claimed delivery is given back."""
    return {"number": delivery.number, "lease": lease, "attempt": delivery.attempt}


def delivery_of(row: Row, event: HookEvent) -> Delivery:
    """A delivery from its row."""
    return Delivery(
        delivery_id=row["delivery_id"],
        binding_id=row["binding_id"],
        org_id=row["org_id"],
        project_id=row["project_id"] or None,
        event=event,
        attempt=row["attempt"],
        due_at=row["due_at"],
        status=row["status"],
        why=row["why"],
        number=row["number"],
    )
