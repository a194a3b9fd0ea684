"""Rows for every table of an export, with every kind of value."""

from __future__ import annotations

import math
from typing import Any

from plughost.vai.database.database import Database, Steps
from plughost.vai.database.statements import Batch, statement
from plughost.vai.maintenance.tables import TABLES

NASTY = '"quoted" \\ \n\t\u2028 ß 日本 🙂 \x7f \'; --'
TINY, HUGE = 5e-324, 1.7976931348623157e308
NAMES = ("", "Z", "a", "é", "zz", NASTY, "\U0010ffff", "￿")
"""Databases sort these in different orders."""


def _row(table: str, **values: Any) -> dict[str, Any]:
    """A row with these values; other columns are NULL, or zero where they must have a value."""
    needed = {"org_id": "org_1", "project_id": ""}
    row = {name: needed.get(name) for name in TABLES[table].columns}
    return {**row, **values}


def sample() -> dict[str, list[dict[str, Any]]]:
    """Rows by table."""
    times = (0.1 + 0.2, TINY, HUGE, -0.0, 1e22, 1763456789.123457, math.pi, math.inf)
    return {
        "meta": [_row("meta", name=name, value=NASTY) for name in NAMES] ,
        "sessions": [_row("sessions", session_id=name, title=NASTY) for name in NAMES],
        "chains": [_row("chains", chain_id=name, session_id=None if n % 2 else "s", compaction_id=f"c{n}") for n, name in enumerate(NAMES)]
        + [_row("chains", chain_id="no compaction")],
        "blocks": [
            _row("blocks", chain_id=name, number=n, kind="k", content="[]", more="{}", once=f"{name}{n}" if n == 1 else None)
            for name in NAMES
            for n in (1, 2, 2**31 - 1)
        ],
        "runs": [
            _row("runs", run_id=f"run_{n}", task="", status="succeeded", started_at=at, ended_at=None if n % 2 else at, output=NASTY)
            for n, at in enumerate(times)
        ],
        "events": [
            _row("events", number=3 * n + 1, event="{}", created_at=at, pending=bool(n % 2)) for n, at in enumerate(times)
        ],
        "deliveries": [
            _row("deliveries", number=2**53 + n, delivery_id=f"del_{n}", binding_id="b", event_number=n, attempt=n, status=status,
                 due_at=1.5, settled_at=None if status == "pending" else 2.5)
            for n, status in enumerate(("pending", "acked", "dead"))
        ],
        "invocations": [
            _row("invocations", number=n + 1, invocation_id=f"inv_{n}", host="h", export_id="e", binding_id="b", package_version="1",
                 started_at=1.0, started="{}", status="failed", finished="{}", presumed=bool(n % 2), start_key=None if n else "key")
            for n in range(2500)
        ],
        "invocation_events": [
            _row("invocation_events", invocation_id=f"inv_{n % 3}", number=n, logged="x" * (n * 10_000)) for n in range(40)
        ],
        "signing_keys": [
            _row("signing_keys", name="key", created_at=1.0, sealed=bytes(range(256))),
            _row("signing_keys", name="no bytes", created_at=2.0, sealed=b""),
        ],
        "orgs": [_row("orgs", name=name, org_id=f"o{n}", created_at=1.0, revision=n) for n, name in enumerate(NAMES)],
        "projects": [_row("projects", project_id=name, name=NASTY, created_at=1.0, revision=n) for n, name in enumerate(NAMES)],
        "api_keys": [
            _row("api_keys", key_id=name, name=NASTY, digest=bytes(range(32)), scopes="[]", is_operator=n % 2 == 0, created_at=1.0,
                 created_by="k", expires_at=None if n % 2 else 2.0, revoked_at=None, last_used_at=3.0)
            for n, name in enumerate(NAMES)
        ],
        "audit": [
            _row("audit", number=2**40 + n, at=1.0, actor="key:k", action="a", target=NASTY, outcome="done", address="", request_id="r")
            for n in range(3)
        ],
        "idempotency_keys": [_row("idempotency_keys", slot=name, status=200, sealed=bytes(range(256)), created_at=1.0) for name in NAMES],
        "secrets": [
            _row("secrets", name=name, version=1, packages=None if n % 2 else "[]", created_at=1.0, updated_at=2.0,
                 master_key_id="k", data_key=bytes(range(256)), sealed=b"")
            for n, name in enumerate(NAMES)
        ],
        "bindings": [
            _row("bindings", binding_id=name, number=2**40 + n, package_id="p", package_version=f"{n}", export_id="e", config="{}",
                 secrets="{}", policy="{}", status="active", traffic_percent=n, activated=None if n % 2 else 2**40, revision=1,
                 created_at=1.5, updated_at=2.5)
            for n, name in enumerate(NAMES)
        ],
        "binding_revisions": [
            _row("binding_revisions", change=2**40 + n, binding_id="b", revision=n, at=1.5, actor="key:k", action="patch", note=NASTY,
                 document="{}")
            for n in range(3)
        ],
        "binding_outcomes": [
            _row("binding_outcomes", binding_id=name, revision=n, slot=2**40, succeeded=n, failed=1) for n, name in enumerate(NAMES)
        ],
    }  # fmt: skip


def _insert(rows: dict[str, list[dict[str, Any]]]) -> Steps[None]:
    for name, its in rows.items():
        if its:
            yield Batch(TABLES[name].insert, its)


async def fill(database: Database, rows: dict[str, list[dict[str, Any]]] | None = None) -> None:
    """Stores rows; numbers that the database gives come after them."""
    await database.write(_insert, sample() if rows is None else rows)
    if database.dialect == "postgresql":
        for table in TABLES.values():
            if table.has_sequence:
                last = statement("last", {None: f"SELECT coalesce(max(number), 1) AS n FROM {table.name}"})
                await database.write(table.set_sequence(value=(await database.read(last())).value()))
