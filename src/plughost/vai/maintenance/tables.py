"""The tables that an export has, with their columns, keys and statements.

A test compares them with the migrated schema: a migration that changes a table changes it here, too.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Mapping
from functools import cached_property
from typing import Any

from plughost.errors import InvalidSpec
from plughost.vai.database.statements import Row, Statement, statement


class Table:
    """A table: its primary key, its columns with their types, and statements to export and import it."""

    def __init__(self, name: str, key: tuple[str, ...], /, **columns: type) -> None:
        self.name = name
        self.key = key
        self.columns = columns
        self.has_sequence = key == ("number",)
        """Whether the database numbers its rows."""

    @cached_property
    def first_page(self) -> Statement:
        """Parameters: `limit`."""
        return self._page("")

    @cached_property
    def next_page(self) -> Statement:
        """Parameters: the key of the last row before the page, and `limit`."""
        after = ", ".join(f":{name}" for name in self.key)
        return self._page(f" WHERE ({', '.join(self.key)}) > ({after})")

    def _page(self, where: str) -> Statement:
        names = ", ".join(self.columns)
        order = ", ".join(self.key)
        return self._statement(f"SELECT {names} FROM {self.name}{where} ORDER BY {order} LIMIT :limit")

    @cached_property
    def insert(self) -> Statement:
        """Parameters: all columns."""
        values = ", ".join(f":{name}" for name in self.columns)
        return self._statement(f"INSERT INTO {self.name} ({', '.join(self.columns)}) VALUES ({values})")

    @cached_property
    def sequence(self) -> Statement:
        """The last number that the database gave to a row; 0 before the first."""
        last = "SELECT CASE WHEN is_called THEN last_value ELSE 0 END AS value"
        return self._variants(
            sqlite=f"SELECT coalesce(max(seq), 0) AS value FROM sqlite_sequence WHERE name = '{self.name}'",
            postgresql=f"{last} FROM {self.name}_number_seq",
        )

    @cached_property
    def forget_sequence(self) -> Statement:
        """Comes before `set_sequence`: SQLite may have a row for the table already."""
        return self._variants(
            sqlite=f"DELETE FROM sqlite_sequence WHERE name = '{self.name}'", postgresql="SELECT 1"
        )

    @cached_property
    def set_sequence(self) -> Statement:
        """Parameters: the `value` after which the database continues."""
        return self._variants(
            sqlite=f"INSERT INTO sqlite_sequence (name, seq) VALUES ('{self.name}', :value)",
            postgresql=f"SELECT setval('{self.name}_number_seq', :value)",
        )

    def _statement(self, source: str) -> Statement:
        return statement(self.name, {None: source})

    def _variants(self, *, sqlite: str, postgresql: str) -> Statement:
        return statement(self.name, {"sqlite": sqlite, "postgresql": postgresql})

    def encoded(self, row: Row | Mapping[str, Any]) -> dict[str, Any]:
        """A row as a JSON object. Bytes and floats that JSON lacks become objects."""
        return {name: _encoded(self.name, name, kind, row[name]) for name, kind in self.columns.items()}

    def decoded(self, row: Mapping[str, Any]) -> dict[str, Any]:
        """The columns of a row from its JSON object. InvalidSpec for an object that is not one."""
        if row.keys() != self.columns.keys():
            raise InvalidSpec(f"it does not have the columns of {self.name}")
        return {name: _decoded(name, kind, row[name]) for name, kind in self.columns.items()}


def _encoded(table: str, column: str, kind: type, value: Any) -> Any:
    if kind is bool and value in (0, 1):  # SQLite has no type for them
        return bool(value)
    if value is not None and type(value) is not kind:
        raise InvalidSpec(
            f"{table}.{column} holds a value of the type {type(value).__name__}, not {kind.__name__}",
            hint="the database was changed by another program",
        )
    if isinstance(value, bytes):
        return {"base64": base64.b64encode(value).decode()}
    if isinstance(value, float):
        # SQLite stores -0.0 as 0.0, so both have one text.
        return value + 0.0 if math.isfinite(value) else {"float": str(value)}
    return value


def _decoded(column: str, kind: type, value: Any) -> Any:
    match value:
        case {"base64": str(text)} if kind is bytes and len(value) == 1:
            return base64.b64decode(text)
        case {"float": "inf" | "-inf" | "nan" as text} if kind is float and len(value) == 1:
            return float(text)
    if value is not None and (type(value) is not kind or kind is bytes):
        raise InvalidSpec(f"{column} has a value of the wrong type")
    if type(value) is int and not -(1 << 63) <= value < 1 << 63:
        raise InvalidSpec(f"{column} is too large for a database")
    return value


TABLES = {
    table.name: table
    for table in (
        Table("meta", ("name",), name=str, value=str),
        Table("sessions", ("session_id",), session_id=str, org_id=str, project_id=str, title=str),
        Table(
            "chains",
            ("chain_id",),
            chain_id=str,
            org_id=str,
            project_id=str,
            session_id=str,
            source_chain_id=str,
            compaction_id=str,
        ),
        Table(
            "blocks",
            ("chain_id", "number"),
            chain_id=str,
            number=int,
            kind=str,
            content=str,
            more=str,
            once=str,
        ),
        Table(
            "runs",
            ("run_id",),
            run_id=str,
            org_id=str,
            project_id=str,
            session_id=str,
            chain_id=str,
            parent_run_id=str,
            invocation_id=str,
            export_id=str,
            task=str,
            status=str,
            reason=str,
            output=str,
            result=str,
            started_at=float,
            ended_at=float,
        ),
        Table(
            "events",
            ("number",),
            number=int,
            org_id=str,
            project_id=str,
            event=str,
            created_at=float,
            pending=bool,
        ),
        Table(
            "deliveries",
            ("number",),
            number=int,
            delivery_id=str,
            binding_id=str,
            org_id=str,
            project_id=str,
            event_number=int,
            attempt=int,
            due_at=float,
            status=str,
            lease=str,
            why=str,
            settled_at=float,
        ),
        Table(
            "invocations",
            ("number",),
            number=int,
            invocation_id=str,
            host=str,
            org_id=str,
            project_id=str,
            export_id=str,
            binding_id=str,
            package_version=str,
            session_id=str,
            chain_id=str,
            run_id=str,
            trace_id=str,
            started_at=float,
            started=str,
            status=str,
            finished=str,
            presumed=bool,
            start_key=str,
        ),
        Table(
            "invocation_events",
            ("invocation_id", "number"),
            invocation_id=str,
            number=int,
            logged=str,
        ),
        Table("signing_keys", ("name",), name=str, created_at=float, sealed=bytes),
        Table("orgs", ("org_id",), org_id=str, name=str, created_at=float, revision=int),
        Table(
            "projects",
            ("project_id",),
            project_id=str,
            org_id=str,
            name=str,
            created_at=float,
            revision=int,
        ),
        Table(
            "api_keys",
            ("key_id",),
            key_id=str,
            org_id=str,
            project_id=str,
            name=str,
            digest=bytes,
            scopes=str,
            is_operator=bool,
            created_at=float,
            created_by=str,
            expires_at=float,
            revoked_at=float,
            last_used_at=float,
        ),
        Table(
            "audit",
            ("number",),
            number=int,
            at=float,
            org_id=str,
            project_id=str,
            actor=str,
            action=str,
            target=str,
            outcome=str,
            address=str,
            request_id=str,
        ),
        Table(
            "idempotency_keys",
            ("slot",),
            slot=str,
            status=int,
            sealed=bytes,
            created_at=float,
        ),
        Table(
            "secrets",
            ("org_id", "project_id", "name"),
            org_id=str,
            project_id=str,
            name=str,
            version=int,
            packages=str,
            created_at=float,
            updated_at=float,
            master_key_id=str,
            data_key=bytes,
            sealed=bytes,
        ),
        Table(
            "bindings",
            ("binding_id",),
            binding_id=str,
            number=int,
            org_id=str,
            project_id=str,
            package_id=str,
            package_version=str,
            export_id=str,
            config=str,
            secrets=str,
            policy=str,
            status=str,
            traffic_percent=int,
            activated=int,
            revision=int,
            created_at=float,
            updated_at=float,
        ),
        Table(
            "binding_revisions",
            ("change",),
            change=int,
            binding_id=str,
            revision=int,
            org_id=str,
            project_id=str,
            at=float,
            actor=str,
            action=str,
            note=str,
            document=str,
        ),
        Table(
            "binding_outcomes",
            ("binding_id", "revision", "slot"),
            binding_id=str,
            revision=int,
            slot=int,
            succeeded=int,
            failed=int,
        ),
    )
}
"""All tables but leases, which mean nothing in another database, by name."""
