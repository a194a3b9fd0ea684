"""Export of a database into a file, and import into an empty one: from SQLite to PostgreSQL and back.

An export reads one snapshot, page by page. An import is one transaction, which also reads back what it has
stored: if it is killed, or if anything differs from the file, the database stays empty. Both need memory for
a page only.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, BinaryIO

from plughost.errors import HostFailed, InvalidSpec
from plughost.vai.database.database import Database, Steps
from plughost.vai.database.statements import Batch, Dialect, Row, statement
from plughost.vai.maintenance.export_file import (
    Digests,
    ExportReader,
    ExportWriter,
    Footer,
    Header,
)
from plughost.vai.maintenance.new_file import new_file
from plughost.vai.maintenance.tables import TABLES, Table
from plughost.vai.maintenance.unfinished_work import end_unfinished_work

PAGE_BYTES = 1 << 20
"""Bytes of rows that are read or stored together, about."""
MAX_PAGE = 1000
"""Rows that are read or stored together, at most."""

LOCK = statement("lock", {None: f"LOCK TABLE {', '.join(TABLES)}, leases IN EXCLUSIVE MODE"})
LEASES = statement("leases", {None: "SELECT lease FROM leases LIMIT 1"})


async def export_database(database: Database, path: str) -> Footer:
    """Writes all tables into a new file that only its owner may read. Hosts go on working meanwhile."""
    with new_file(path) as temporary, open(temporary, "xb", opener=_private) as file:  # noqa: ASYNC230
        footer = await database.read(_export, ExportWriter(file))
        file.flush()
        return footer


async def import_database(path: str, database: Database) -> Footer:
    """Stores an export in an empty database. InvalidSpec, and nothing is stored, for another database and for
    a file that is incomplete or was changed."""
    with _opened(path) as file:
        reader = ExportReader(file, path)
        header, footer = await asyncio.to_thread(reader.check)
        await database.write(_import, database.dialect, reader, header, footer)
        return footer


def _private(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_CLOEXEC, 0o600)


def _opened(path: str) -> BinaryIO:
    try:
        return open(path, "rb")
    except OSError as error:
        raise InvalidSpec(f"{path} cannot be read: {error.strerror}") from error


def _export(writer: ExportWriter) -> Steps[Footer]:
    sequences = {}
    for table in TABLES.values():
        if table.has_sequence:
            sequences[table.name] = (yield table.sequence()).value()
    writer.start(sequences)
    for table in TABLES.values():
        yield from _read(table, partial(writer.add, table))
    return writer.finish()


def _read(table: Table, use: Callable[[Row], int]) -> Steps[None]:
    """Reads a table in pages of about PAGE_BYTES; `use` is given each row and returns its size."""
    rows = (yield table.first_page(limit=1)).rows
    while rows:
        size = sum([use(row) for row in rows])
        limit = min(max(len(rows) * PAGE_BYTES // size, 1), MAX_PAGE, len(rows) * 8)
        last = {name: rows[-1][name] for name in table.key}
        rows = (yield table.next_page(**last, limit=limit)).rows


def _import(dialect: Dialect, reader: ExportReader, header: Header, footer: Footer) -> Steps[None]:
    if dialect == "postgresql":  # a writer of SQLite locks the whole file
        yield LOCK()
    yield from _check_empty()
    for table, rows in _batches(reader):
        if dialect == "postgresql":
            _check_no_nul(table, rows)
        yield Batch(table.insert, rows)  # not by `each`, which replaces NUL characters
    for name, value in header.sequences.items():
        yield TABLES[name].forget_sequence()
        if value:
            yield TABLES[name].set_sequence(value=value)
    yield from _check_stored(footer)
    yield from end_unfinished_work()


def _check_empty() -> Steps[None]:
    for table in TABLES.values():
        if (yield table.first_page(limit=1)).rows:
            raise _not_empty(f"the table {table.name} has rows")
    if (yield LEASES()).rows:
        raise _not_empty("a host uses it")


def _not_empty(why: str) -> InvalidSpec:
    return InvalidSpec(
        f"the database is not empty: {why}", hint="import into a new database; nothing was changed"
    )


def _batches(reader: ExportReader) -> Iterator[tuple[Table, list[dict[str, Any]]]]:
    """The rows of a file by table, as many as fit into a batch."""
    batch: list[dict[str, Any]] = []
    last, size = None, 0
    for table, row, length in reader.rows():
        if last is not None and (table is not last or size + length > PAGE_BYTES or len(batch) == MAX_PAGE):
            yield last, batch
            batch, size = [], 0
        batch.append(row)
        last, size = table, size + length
    if last is not None:
        yield last, batch


def _check_no_nul(table: Table, rows: list[dict[str, Any]]) -> None:
    for row in rows:
        for name, value in row.items():
            if isinstance(value, str) and "\0" in value:
                key = ", ".join(str(row[each]) for each in table.key)
                raise InvalidSpec(
                    f"{table.name}.{name} of {key!r} has a NUL character, which PostgreSQL cannot store",
                    hint="remove that row from the database and export it again; nothing was stored",
                )


def _check_stored(footer: Footer) -> Steps[None]:
    digests = Digests()
    for table in TABLES.values():
        yield from _read(table, partial(digests.add, table))
    stored = digests.tables()
    if different := [name for name in TABLES if stored[name] != footer.tables.get(name)]:
        raise HostFailed(
            f"the database did not store what the file has: {', '.join(different)} would differ",
            hint="nothing was stored; check the database, and tell the authors of plughost",
        )
