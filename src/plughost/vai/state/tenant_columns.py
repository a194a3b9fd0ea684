"""How tenants are stored: rows of an organisation itself have an empty project_id, so that indexes work."""

from __future__ import annotations

from typing import Any

import msgspec

from plughost.vai.database.statements import Row


def columns(stored: msgspec.Struct) -> dict[str, Any]:
    """The fields of a struct as columns; `project_id` is never NULL."""
    fields = msgspec.structs.asdict(stored)
    fields["project_id"] = fields["project_id"] or ""
    return fields


def from_row(row: Row) -> dict[str, Any]:
    """A row as the fields of a struct."""
    fields: dict[str, Any] = {name: row[name] for name in row.keys()}  # noqa: SIM118 - rows are no dicts
    fields["project_id"] = fields["project_id"] or None
    return fields
