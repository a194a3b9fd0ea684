"""Execution: the state of one running invocation (deadline, redactor, process) and the entries of its
record."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import msgspec

from plughost._util.redaction.redactor import Redactor
from plughost._util.text import truncate
from plughost.clock import Clock
from plughost.errors import InvalidSpec
from plughost.vai.bindings.binding import Scope, tenant_of
from plughost.vai.bindings.prepared import PreparedBinding
from plughost.vai.invocations.invocation import Invocation, OnEvent
from plughost.vai.invocations.outcome import Outcome
from plughost.vai.invocations.pool import PooledWorker
from plughost.vai.records.record import MAX_TEXT, TRUNCATED, EventLogged, Finished, RecordSink, Started
from plughost.vai.records.retention import RecordLimits
from plughost.wire.messages import decode, encode

_DEFAULT_LIMITS = RecordLimits()


class Execution(msgspec.Struct, eq=False):
    """One running invocation. A msgspec struct, because one is made per call and a Python constructor is
    slower."""

    id: str
    invocation: Invocation
    prepared: PreparedBinding
    scope: Scope
    """The tenant that it is executed for."""
    trace_id: str
    clock: Clock
    deadline: float
    """On the monotonic clock `clock`."""
    began_at: float
    ends_at: float
    """The deadline as wall time, like `began_at`: seconds since 1970."""
    records: RecordSink
    on_event: OnEvent | None
    redactor: Redactor = msgspec.field(default_factory=Redactor)
    """Redacts the secrets that its process was given for its tenant, once it has a process."""
    process: PooledWorker | None = None
    """The process that executes it, or did last."""
    limits: RecordLimits = _DEFAULT_LIMITS
    """Limits on the events in its record."""
    retries: int = 0
    events: int = 0
    """Number of events recorded."""
    event_bytes: int = 0
    omitted: int = 0
    """Number of events left out of the record."""

    def __repr__(self) -> str:
        return f"<Execution {self.id}>"

    @property
    def left(self) -> float:
        """Seconds until its deadline, at least a millisecond."""
        left = self.deadline - self.clock.time()
        return left if left > 0.001 else 0.001

    @property
    def confined_by(self) -> tuple[str, ...]:
        """The sandbox mechanisms that hold its process."""
        return () if self.process is None else self.process.confined_by

    def make_outcome(
        self,
        status: str,
        reason: str | None,
        message: str | None = None,
        last_words: str = "",
        hint: str = "",
    ) -> Outcome:
        """An outcome of this invocation, with secrets redacted."""
        return Outcome(
            invocation_id=self.id,
            status=status,
            reason=reason,
            message=None if message is None else self.redactor.redact(message),
            retries=self.retries,
            last_words=self.redactor.redact(last_words) or None,
            hint=self.redactor.redact(hint) or None,
        )

    def started_entry(self) -> Started:
        """The record entry for its start."""
        scope, related = self.scope, self.invocation.related
        return Started(
            invocation_id=self.id,
            bound=self.prepared.recorded,
            started_at=self.began_at,
            org_id=scope.org_id,
            project_id=scope.project_id,
            session_id=related.session_id,
            chain_id=related.chain_id,
            run_id=related.run_id,
            trace_id=self.trace_id,
            execution_id=self.invocation.work.execution_id,
        )

    def on_plugin_event(self, raw_event: msgspec.Raw) -> None:
        """Records an event that the plugin sent, and passes it on to the listener of a streaming export."""
        if (size := len(memoryview(raw_event))) > (largest := self.prepared.at_once):
            why = f"an event of {size} bytes was left out; the largest is {largest}"
            if self._has_room_for(len(why)):
                self.records.append(self._next_entry({"type": "protocol.refused", "message": why}))
            return
        tool = self.prepared.export.tool
        listened = self.on_event is not None and (tool is None or tool.streaming)
        recorded = self._has_room_for(size)
        if not recorded and not listened:
            return
        event = self.redactor.redact_json(decode(raw_event))
        if recorded:
            # Numbers may be longer than they were sent, and so may a redacted secret.
            self.event_bytes += max(len(encode(event)) - size, 0)
            self.records.append(self._next_entry(event))
        if listened and self.on_event is not None:
            self.on_event(dict(event))

    def _has_room_for(self, size: int) -> bool:
        """Whether the record takes one more event of the plugin. The first event left out is itself
        recorded."""
        if not self.omitted:
            if self.events < self.limits.events and self.event_bytes + size <= self.limits.bytes:
                self.event_bytes += size
                return True
            why = (
                f"the record of one invocation holds at most {self.limits.events} events "
                f"of {self.limits.bytes} bytes in all; later ones are left out"
            )
            self.records.append(self._next_entry({"type": TRUNCATED, "message": why}))
        self.omitted += 1
        return False

    def event_entry(self, event: Mapping[str, Any]) -> EventLogged:
        """The record entry for an event of the host itself, with secrets redacted."""
        return self._next_entry(self.redactor.redact_json(event))

    def _next_entry(self, event: Mapping[str, Any]) -> EventLogged:
        number, self.events = self.events, self.events + 1
        return EventLogged(invocation_id=self.id, number=number, at=time.time(), event=event)

    def finished_entry(self, outcome: Outcome) -> Finished:
        """The record entry for its end."""
        return Finished(
            invocation_id=self.id,
            ended_at=time.time(),
            status=outcome.status,
            reason=outcome.reason,
            message=_truncated(outcome.message),
            last_words=_truncated(outcome.last_words),
            hint=_truncated(outcome.hint),
            retries=self.retries,
            confined_by=self.confined_by,
            events_omitted=self.omitted,
        )


def start_execution(
    id: str,
    invocation: Invocation,
    prepared: PreparedBinding,
    clock: Clock,
    records: RecordSink,
    on_event: OnEvent | None = None,
    limits: RecordLimits | None = None,
) -> Execution:
    """Starts the clock of an invocation: its timeout is the caller's or the binding's, whichever is
    shorter."""
    related, seconds, now = invocation.related, prepared.seconds, time.time()
    if invocation.timeout_ms is not None:
        if type(invocation.timeout_ms) is not int:
            raise InvalidSpec(f"timeout_ms is {truncate(invocation.timeout_ms)}; expected whole milliseconds")
        seconds = max(min(invocation.timeout_ms / 1000, seconds), 0.0)
    return Execution(
        id,
        invocation,
        prepared,
        prepared.tenant or tenant_of(prepared.binding, related.project_id),
        related.trace_id or f"tr_{id}",
        clock,
        clock.time() + seconds,
        now,
        now + seconds,
        records,
        on_event,
        limits=limits or _DEFAULT_LIMITS,
    )


def _truncated(text: str | None) -> str | None:
    return text if text is None or len(text) <= MAX_TEXT else text[:MAX_TEXT] + "…"
