"""The entries of an invocation's record: Started, EventLogged, Finished."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import msgspec

from plughost.vai.bindings.permissions import GrantedPermissions

FIRST_REFUSAL = 1 << 30
"""The number of the first event after an invocation's own: what the gateway refused it."""
FIRST_UNSOLICITED = FIRST_REFUSAL + (1 << 20)
"""The number of the first unsolicited message of its process after the last invocation in it ended."""
TRUNCATED = "record.truncated"
"""The type of the event that marks where a record reached its limit of events."""
MAX_TEXT = 16 << 10
"""Characters of each text of an end: message, last words, hint."""
STATUSES = ("succeeded", "failed", "cancelled", "retryable_failure")


class RecordedBinding(msgspec.Struct, frozen=True, kw_only=True):
    """The part of a record that all invocations of a binding have in common."""

    export_kind: str
    export_id: str
    binding_id: str
    package_id: str
    package_version: str
    package_digest: str
    granted: GrantedPermissions
    """Includes the execution class."""


class Started(msgspec.Struct, frozen=True, kw_only=True, tag="began", omit_defaults=True):
    """The start of an invocation: its binding and tenant, and what it belongs to."""

    invocation_id: str
    bound: msgspec.Raw
    """A `RecordedBinding`, as JSON."""
    started_at: float
    """Seconds since 1970."""
    org_id: str
    project_id: str | None = None
    session_id: str | None = None
    chain_id: str | None = None
    run_id: str | None = None
    trace_id: str | None = None
    execution_id: str | None = None


class EventLogged(msgspec.Struct, frozen=True, kw_only=True, tag="said"):
    """An event of a running invocation, with secrets redacted."""

    invocation_id: str
    number: int
    at: float
    event: Mapping[str, Any]


class Finished(msgspec.Struct, frozen=True, kw_only=True, tag="ended", omit_defaults=True):
    """The end of an invocation: status, reason, texts for people, and the sandbox it had."""

    invocation_id: str
    ended_at: float
    status: str
    reason: str | None = None
    """Why it did not succeed: deadline_exceeded, collateral, crashed and others."""
    message: str | None = None
    last_words: str | None = None
    hint: str | None = None
    retries: int = 0
    confined_by: tuple[str, ...] = ()
    events_omitted: int = 0
    """Events left out because the record had reached its limit."""


Entry = Started | EventLogged | Finished


class RecordSink(Protocol):
    """Stores record entries; they survive a crash of this process."""

    @property
    def is_behind(self) -> bool:
        """Whether entries come faster than they can be stored: a caller should `catch_up` before it starts
        anything new."""

    async def catch_up(self) -> None:
        """Waits until enough entries are stored."""

    async def commit_start(self, started: Started, key: str | None) -> str:
        """Stores the start of an invocation durably, before it begins. Returns its id, or with an idempotency
        key the id of the invocation that was started with it first."""

    def append(self, entry: Entry) -> None:
        """Stores one entry."""
