"""One invocation under way: its time, what it must not show, and how it is told to the records."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import msgspec

from plughost.base.clock import Clock
from plughost.base.hiding import Hidden
from plughost.invocations.binding import Scope, tenant_of
from plughost.invocations.invocation import Invocation, OnEvent
from plughost.invocations.outcome import Outcome
from plughost.invocations.pool import Process
from plughost.invocations.prepared import Prepared
from plughost.invocations.record import LONGEST_TEXT, TRUNCATED, Began, Ended, RecordSink, Said
from plughost.invocations.retention import RecordLimits
from plughost.wire.envelope import decode, encode

_USUAL = RecordLimits()


class Run(msgspec.Struct, eq=False):
    """A struct, since one is made for every invocation: a constructor in Python would be felt."""

    id: str
    wanted: Invocation
    prepared: Prepared
    scope: Scope
    """Whose it is."""
    trace_id: str
    clock: Clock
    deadline: float
    """By its clock."""
    began_at: float
    ends_at: float
    """By the calendar: seconds since 1970."""
    records: RecordSink
    on_event: OnEvent | None
    hidden: Hidden = msgspec.field(default_factory=Hidden)
    """What its process was given for its tenant, once it has one."""
    process: Process | None = None
    """The one that it is in, or was in last."""
    limits: RecordLimits = _USUAL
    """Of its record."""
    retries: int = 0
    events: int = 0
    """Those that are recorded."""
    event_bytes: int = 0
    omitted: int = 0
    """Those that are not."""

    def __repr__(self) -> str:
        return f"<Run {self.id}>"

    @property
    def left(self) -> float:
        """Seconds until its deadline."""
        left = self.deadline - self.clock.time()
        return left if left > 0.001 else 0.001

    @property
    def confined_by(self) -> tuple[str, ...]:
        """What its process is held by."""
        return () if self.process is None else self.process.confined_by

    def ended_as(
        self,
        status: str,
        reason: str | None,
        message: str | None = None,
        last_words: str = "",
        hint: str = "",
    ) -> Outcome:
        return Outcome(
            invocation_id=self.id,
            status=status,
            reason=reason,
            message=None if message is None else self.hidden.text(message),
            retries=self.retries,
            last_words=self.hidden.text(last_words) or None,
            hint=self.hidden.text(hint) or None,
        )

    def began(self) -> Began:
        scope, related = self.scope, self.wanted.related
        return Began(
            invocation_id=self.id,
            bound=self.prepared.bound,
            started_at=self.began_at,
            org_id=scope.org_id,
            project_id=scope.project_id,
            session_id=related.session_id,
            chain_id=related.chain_id,
            run_id=related.run_id,
            trace_id=self.trace_id,
            execution_id=self.wanted.work.execution_id,
        )

    def hear(self, said: msgspec.Raw) -> None:
        """What its process tells of it: for the records, and for who listens to an export that streams."""
        if (size := len(memoryview(said))) > (largest := self.prepared.at_once):
            why = f"an event of {size} bytes was left out; the largest is {largest}"
            if self._has_room_for(len(why)):
                self.records.tell(self._next({"type": "protocol.refused", "message": why}))
            return
        tool = self.prepared.export.tool
        listened = self.on_event is not None and (tool is None or tool.streaming)
        recorded = self._has_room_for(size)
        if not recorded and not listened:
            return
        event = self.hidden.value(decode(said))
        if recorded:
            # Numbers may be longer than they were sent, and what is hidden.
            self.event_bytes += max(len(encode(event)) - size, 0)
            self.records.tell(self._next(event))
        if listened and self.on_event is not None:
            self.on_event(dict(event))

    def _has_room_for(self, size: int) -> bool:
        """Whether its record takes one more event of its process. The first that is left out is told."""
        if not self.omitted:
            if self.events < self.limits.events and self.event_bytes + size <= self.limits.bytes:
                self.event_bytes += size
                return True
            why = (
                f"the record of one invocation holds at most {self.limits.events} events "
                f"of {self.limits.bytes} bytes in all; later ones are left out"
            )
            self.records.tell(self._next({"type": TRUNCATED, "message": why}))
        self.omitted += 1
        return False

    def said(self, event: Mapping[str, Any]) -> Said:
        """An event that the host itself tells of it, secrets hidden."""
        return self._next(self.hidden.value(event))

    def _next(self, event: Mapping[str, Any]) -> Said:
        number, self.events = self.events, self.events + 1
        return Said(invocation_id=self.id, number=number, at=time.time(), event=event)

    def ended(self, outcome: Outcome) -> Ended:
        return Ended(
            invocation_id=self.id,
            ended_at=time.time(),
            status=outcome.status,
            reason=outcome.reason,
            message=_clipped(outcome.message),
            last_words=_clipped(outcome.last_words),
            hint=_clipped(outcome.hint),
            retries=self.retries,
            confined_by=self.confined_by,
            events_omitted=self.omitted,
        )


def begin(
    id: str,
    wanted: Invocation,
    prepared: Prepared,
    clock: Clock,
    records: RecordSink,
    on_event: OnEvent | None = None,
    limits: RecordLimits | None = None,
) -> Run:
    """It has begun now, and has as much time as its caller gives and its binding allows."""
    related, seconds, now = wanted.related, prepared.seconds, time.time()
    if wanted.timeout_ms is not None:
        seconds = max(min(wanted.timeout_ms / 1000, seconds), 0.0)
    return Run(
        id,
        wanted,
        prepared,
        prepared.tenant or tenant_of(prepared.binding, related.project_id),
        related.trace_id or f"tr_{id}",
        clock,
        clock.time() + seconds,
        now,
        now + seconds,
        records,
        on_event,
        limits=limits or _USUAL,
    )


def _clipped(text: str | None) -> str | None:
    return text if text is None or len(text) <= LONGEST_TEXT else text[:LONGEST_TEXT] + "…"
