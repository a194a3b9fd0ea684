"""Automatic rollback: the decision to take a new version out of the traffic because it fails more often.

Only failures that the plugin caused count. What a caller can bring about alone does not: invalid input, a
cancelled call, a deadline that the caller set, or calls that find no free slot. Failures of the host do not
count either.
"""

from __future__ import annotations

from typing import Any

import msgspec

from plughost.contracts.vai.request_bodies import EventSubject
from plughost.gateway import audit
from plughost.gateway.audit import AuditEntry
from plughost.gateway.bindings import table
from plughost.gateway.bindings.documents import BindingDocument, scope_of
from plughost.gateway.bindings.lookups import FIND, versions_of
from plughost.gateway.bindings.table import Author
from plughost.vai.database.database import Steps
from plughost.vai.invocations.outcome import DEADLINE, NO_REASON_GIVEN, PLUGIN_REASON_PREFIX, Outcome
from plughost.vai.state import outbox

ACTOR = "gateway:auto_rollback"
ACTION = "auto_rollback"
EVENT = "binding.rolled_back"
PLUGIN_FAULTS = frozenset(
    {
        NO_REASON_GIVEN,
        "crashed",
        "budget_exceeded",
        "handshake_failed",
        "invalid_output",
        "launch_failed",
        "malformed",
        "protocol_failure",
        "quarantined",
        "timeout",
        "unknown_method",
    }
)
"""The reasons of failures that a plugin causes, besides its own error codes."""


class RollbackSettings(msgspec.Struct, frozen=True, kw_only=True):
    """When a new version is rolled back."""

    window_seconds: float = 300.0
    margin_points: float = 10.0
    """Percentage points by which its share of failures exceeds that of the other version."""
    min_invocations: int = 50
    """Invocations of the new version that the decision needs."""


class Counts(msgspec.Struct, frozen=True):
    """How many invocations of a version succeeded, and how many failed because of the plugin."""

    succeeded: int = 0
    failed: int = 0

    @property
    def total(self) -> int:
        return self.succeeded + self.failed

    @property
    def failed_percent(self) -> float:
        """The share of failures; 0 without invocations."""
        return 100 * self.failed / self.total if self.total else 0.0


def plugin_failed(outcome: Outcome, *, callers_deadline: bool) -> bool | None:
    """Whether the plugin failed; None for an outcome that says nothing about the plugin.

    `callers_deadline`: the caller set a shorter timeout than the binding has.
    """
    if outcome.status == "succeeded":
        return False
    reason = outcome.reason or ""
    if outcome.status == "cancelled":
        return True if reason == DEADLINE and not callers_deadline else None
    if reason in PLUGIN_FAULTS or reason.startswith(PLUGIN_REASON_PREFIX):
        return True
    return None


def rollback_reason(new: Counts, old: Counts, settings: RollbackSettings) -> str | None:
    """Why the new version is to be rolled back; None when it is not. An old version without invocations
    counts as one that never fails."""
    if new.total < settings.min_invocations:
        return None
    if new.failed_percent - old.failed_percent <= settings.margin_points:
        return None
    return (
        f"{new.failed_percent:.1f} % of {new.total} invocations failed, and {old.failed_percent:.1f} % of "
        f"{old.total} of the other version, within {settings.window_seconds:g} seconds"
    )


def roll_back_version(binding_id: str, revision: int, why: str) -> Steps[BindingDocument | None]:
    """Takes a version out of the traffic: with a revision, a line in the audit log and an event. The other
    active version gets all traffic.

    None when the binding has another revision meanwhile, such as when another process was faster.
    """
    change = yield from table.next_change()
    row = (yield FIND(binding_id=binding_id)).first()
    if row is None or row["revision"] != revision or row["status"] != "active" or not row["traffic_percent"]:
        return None
    versions = yield from versions_of(scope_of(row), row["package_id"], row["export_id"])
    others = [each for each in versions if each.is_active and each.binding_id != binding_id]
    if not others:
        return None
    document = yield from table.set_share(change, row, 0, Author(ACTOR, why), ACTION)
    scope = document.scope
    yield audit.insert(
        AuditEntry(
            org_id=scope.org_id,
            project_id=scope.project_id or "",
            actor=ACTOR,
            action=f"bindings.{ACTION}",
            target=binding_id,
        )
    )
    summary: dict[str, Any] = {
        "binding_id": binding_id,
        "package_id": document.package_id,
        "package_version": document.package_version,
        "export_id": document.export_id,
        "serving_version": others[0].package_version,
        "revision": document.revision,
        "reason": why,
    }
    yield outbox.insert(scope, outbox.event(EVENT, EventSubject("binding", binding_id), summary))
    return document
