"""One invocation under way: its time, what it must not show, and how it is told to the records."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import msgspec

from plughost.base.clock import Clock
from plughost.base.hiding import Hidden
from plughost.invocations.binding import tenant_of
from plughost.invocations.invocation import Invocation, OnEvent
from plughost.invocations.outcome import Outcome
from plughost.invocations.pool import Process
from plughost.invocations.prepared import Prepared
from plughost.invocations.record import Began, Ended, RecordSink, Said
from plughost.invocations.work import execution_id
from plughost.wire.envelope import decode


class Run:
    __slots__ = (
        "_clock", "_on_event", "_records", "confined_by", "deadline", "events", "hidden", "id", "prepared",
        "process", "retries", "scope", "trace_id", "wanted",
    )  # fmt: skip

    def __init__(
        self,
        id: str,
        wanted: Invocation,
        prepared: Prepared,
        clock: Clock,
        records: RecordSink,
        on_event: OnEvent | None,
    ) -> None:
        self.id = id
        self.wanted = wanted
        self.prepared = prepared
        self.scope = tenant_of(prepared.binding, wanted.related.project_id)
        """Whose it is."""
        self.trace_id = wanted.related.trace_id or f"tr_{id}"
        allowed = prepared.granted.timeout_ms
        if wanted.timeout_ms is not None:
            allowed = max(min(wanted.timeout_ms, allowed), 0)
        self._clock = clock
        self._records = records
        self._on_event = on_event
        self.deadline = clock.time() + allowed / 1000
        self.hidden = Hidden()
        """What its process was given for its tenant, once it has one."""
        self.process: Process | None = None
        """The one that it is in, or was in last."""
        self.retries = 0
        self.events = 0
        self.confined_by: tuple[str, ...] = ()

    @property
    def left(self) -> float:
        """Seconds until its deadline."""
        return max(self.deadline - self._clock.time(), 0.001)

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
            started_at=time.time(),
            org_id=scope.org_id,
            project_id=scope.project_id,
            session_id=related.session_id,
            chain_id=related.chain_id,
            run_id=related.run_id,
            trace_id=self.trace_id,
            execution_id=execution_id(self.wanted.work),
        )

    def hear(self, said: msgspec.Raw) -> None:
        """What its process tells of it: for the records, and for who listens to an export that streams."""
        told = self.said(decode(said))
        self._records.tell(told)
        tool = self.prepared.export.tool
        if self._on_event is not None and (tool is None or tool.streaming):
            self._on_event(dict(told.event))

    def said(self, event: Mapping[str, Any]) -> Said:
        """Its next event, secrets hidden."""
        number, self.events = self.events, self.events + 1
        return Said(invocation_id=self.id, number=number, at=time.time(), event=self.hidden.value(event))

    def ended(self, outcome: Outcome) -> Ended:
        return Ended(
            invocation_id=self.id,
            ended_at=time.time(),
            status=outcome.status,
            reason=outcome.reason,
            message=outcome.message,
            last_words=outcome.last_words,
            hint=outcome.hint,
            retries=self.retries,
            confined_by=self.confined_by,
        )
