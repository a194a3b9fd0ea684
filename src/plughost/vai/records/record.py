"""What is kept of every invocation: who, what, for whom, how it was held, how it ended."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import msgspec

from plughost.vai.bindings.permissions import GrantedPermissions

AFTERWARDS = 1 << 30
"""The number of the first event that comes after an invocation's own: what the gateway refused it."""
STRAY = AFTERWARDS + (1 << 20)
"""Of the first thing that its process said when nothing ran in it any more."""
TRUNCATED = "record.truncated"
"""The type of the event that stands where a record had its fill of events."""
LONGEST_TEXT = 16 << 10
"""Letters of each text in which an end is told."""
STATUSES = ("succeeded", "failed", "cancelled", "retryable_failure")


class RecordedBinding(msgspec.Struct, frozen=True, kw_only=True):
    """What all invocations of a binding have in common."""

    export_kind: str
    export_id: str
    binding_id: str
    package_id: str
    package_version: str
    package_digest: str
    granted: GrantedPermissions
    """Its execution class, too."""


class Started(msgspec.Struct, frozen=True, kw_only=True, tag="began", omit_defaults=True):
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
    """An event of a running invocation, secrets hidden."""

    invocation_id: str
    number: int
    at: float
    event: Mapping[str, Any]


class Finished(msgspec.Struct, frozen=True, kw_only=True, tag="ended", omit_defaults=True):
    invocation_id: str
    ended_at: float
    status: str
    reason: str | None = None
    """Why it ended otherwise than it wanted to: deadline_exceeded, collateral, crashed …"""
    message: str | None = None
    last_words: str | None = None
    hint: str | None = None
    retries: int = 0
    confined_by: tuple[str, ...] = ()
    events_omitted: int = 0
    """Events that are not in the record, because it had its fill of them."""


Entry = Started | EventLogged | Finished


class RecordSink(Protocol):
    """The seam to whoever keeps records. What it was told survives the end of this process."""

    def tell(self, entry: Entry) -> None: ...
