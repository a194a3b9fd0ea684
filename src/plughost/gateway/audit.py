"""Audit log: who did what to which record, from where, and whether it was allowed.

A line about a change is written in the transaction of the change. It never has a body or a secret.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any

import msgspec

from plughost.vai.database.filters import Filters
from plughost.vai.database.statements import Batch, Query, load_statements

_SQL = load_statements(__file__)
INSERT = _SQL["insert"]
MAX_TEXT = 300
"""Characters of each text of a line: some come from callers."""
DONE = "done"

LIST = Filters(
    "SELECT number, at, org_id, project_id, actor, action, target, outcome, address, request_id FROM audit",
    equal={
        "org": "org_id",
        "action": "action",
        "actor": "actor",
        "target": "target",
        "outcome": "outcome",
    },
    at_least={"since": "at"},
    below={"until": "at"},
    needs=dict.fromkeys(("action", "actor", "target", "outcome", "since", "until"), "org"),
    newest_first=("number",),
)
"""The lists of the audit log, newest first."""


class AuditEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the audit log."""

    org_id: str = ""
    project_id: str = ""
    actor: str = ""
    """Kind and id of the principal; empty for somebody without a valid credential."""
    action: str
    """Such as `keys.create`."""
    target: str = ""
    """The id of the record."""
    outcome: str = DONE
    """`done`, or the code of the problem that refused it."""
    address: str = ""
    """The client's."""
    request_id: str = ""


def insert(entry: AuditEntry) -> Query:
    """Adds a line to the log, within the transaction of what it reports."""
    return INSERT(**_values(time.time(), entry))


def insert_all(entries: Iterable[tuple[float, AuditEntry]]) -> Batch:
    """Adds lines about what happened at these times (seconds since 1970)."""
    return INSERT.each(_values(at, entry) for at, entry in entries)


def _values(at: float, entry: AuditEntry) -> dict[str, Any]:
    texts = {name: str(value)[:MAX_TEXT] for name, value in msgspec.structs.asdict(entry).items()}
    return {"at": at, **texts}
