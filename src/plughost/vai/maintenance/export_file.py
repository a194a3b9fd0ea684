"""The file of an export: lines of JSON, one for each row, between a header and a footer.

    {"format":"plughost database","version":1,"schema":1,"sequences":{"events":7,…}}
    {"table":"sessions","row":{"session_id":"sess_1",…}}
    …
    {"tables":{"sessions":{"rows":1,"sha256":"…"},…},"sha256":"…"}

The digest of a table is the sum of the SHA-256 digests of its rows, modulo 2**256: databases sort texts
differently, and a sum does not depend on the order. The last digest is that of all bytes before the footer.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from typing import Any, BinaryIO

import msgspec

from plughost.errors import InvalidSpec
from plughost.vai.database.migrations import migrations
from plughost.vai.database.statements import Row
from plughost.vai.maintenance.tables import TABLES, Table

FORMAT, VERSION = "plughost database", 1
_ROW = b'{"table":'
_encode = msgspec.json.Encoder().encode


def schema_version() -> int:
    """The version of the schema that this plughost exports and imports."""
    return len(migrations("sqlite"))


class Header(msgspec.Struct, frozen=True, kw_only=True):
    """The first line."""

    format: str
    version: int
    schema: int
    sequences: dict[str, int]
    """The last number that was given to a row, by table."""


class TableDigest(msgspec.Struct, frozen=True):
    """The number of a table's rows, and the digest of all of them."""

    rows: int
    sha256: str


class Footer(msgspec.Struct, frozen=True, kw_only=True):
    """The last line."""

    tables: dict[str, TableDigest]
    sha256: str


class RowLine(msgspec.Struct, frozen=True):
    """A line between them."""

    table: str
    row: dict[str, Any]


_header = msgspec.json.Decoder(Header)
_row_line = msgspec.json.Decoder(RowLine)
_footer = msgspec.json.Decoder(Footer)
_UNREADABLE = (msgspec.MsgspecError, ValueError, RecursionError)
"""Errors for a line that is not JSON of its type, not UTF-8, or nested too deeply."""


class Digests:
    """The digests of tables, row by row."""

    def __init__(self) -> None:
        self._rows = dict.fromkeys(TABLES, 0)
        self._sums = dict.fromkeys(TABLES, 0)

    def add(self, table: Table, row: Row | Mapping[str, Any]) -> int:
        """Adds a row; returns the bytes of its JSON text."""
        return len(self.add_text(table, row))

    def add_text(self, table: Table, row: Row | Mapping[str, Any]) -> bytes:
        """Adds a row; returns its JSON text, which is the same in every database."""
        text = _encode(table.encoded(row))
        self._rows[table.name] += 1
        self._sums[table.name] += int.from_bytes(hashlib.sha256(text).digest(), "big")
        return text

    def tables(self) -> dict[str, TableDigest]:
        """The digests of all tables."""
        return {name: TableDigest(self._rows[name], f"{self._sums[name] % 2**256:064x}") for name in TABLES}


class ExportWriter:
    """Writes an export to an open file."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file

    def start(self, sequences: dict[str, int]) -> None:
        """Writes the header; what was written before is dropped."""
        self._file.seek(0)
        self._file.truncate()
        self._digest = hashlib.sha256()
        self._digests = Digests()
        header = Header(format=FORMAT, version=VERSION, schema=schema_version(), sequences=sequences)
        self._write(_encode(header) + b"\n")

    def add(self, table: Table, row: Row) -> int:
        """Writes a row; returns the bytes of its line."""
        text = self._digests.add_text(table, row)
        return self._write(b'%b"%b","row":%b}\n' % (_ROW, table.name.encode(), text))

    def finish(self) -> Footer:
        """Writes the footer."""
        footer = Footer(tables=self._digests.tables(), sha256=self._digest.hexdigest())
        self._write(_encode(footer) + b"\n")
        return footer

    def _write(self, line: bytes) -> int:
        self._digest.update(line)
        return self._file.write(line)


class ExportReader:
    """Reads an export from an open file. InvalidSpec for a file that is incomplete or was changed."""

    def __init__(self, file: BinaryIO, name: str) -> None:
        self._file = file
        self._name = name

    def check(self) -> tuple[Header, Footer]:
        """Reads the whole file and compares all digests."""
        self._file.seek(0)
        line = self._file.readline()
        try:
            header = _header.decode(line)
        except _UNREADABLE:
            header = None
        if header is None or header.format != FORMAT:
            raise InvalidSpec(
                f"{self._name} is not an export of a database", hint="see plughost database export --help"
            )
        self._check_version(header)
        digest, digests = hashlib.sha256(line), Digests()
        for number, line in enumerate(self._file, 2):
            if not line.startswith(_ROW):
                return header, self._check_footer(line, digest.hexdigest(), digests)
            digest.update(line)
            try:
                table, row = _parsed(line)
                digests.add(table, row)
            except (*_UNREADABLE, InvalidSpec) as error:
                words = error.message if isinstance(error, InvalidSpec) else error
                raise self._damaged(f"line {number}: {words}") from None
        raise self._damaged("its end is missing")

    def rows(self) -> Iterator[tuple[Table, dict[str, Any], int]]:
        """All rows of a file that was checked: the table, the columns, and the bytes of the line."""
        self._file.seek(0)
        self._file.readline()
        for line in self._file:
            if line.startswith(_ROW):
                yield *_parsed(line), len(line)

    def _check_version(self, header: Header) -> None:
        if header.version != VERSION or header.schema != schema_version():
            raise InvalidSpec(
                f"{self._name} was written by another plughost: its version is {header.version} with the "
                f"schema {header.schema}, and this plughost supports {VERSION} with {schema_version()}",
                hint="import it with that plughost, then update",
            )
        with_sequence = {table.name for table in TABLES.values() if table.has_sequence}
        if header.sequences.keys() != with_sequence or not all(
            0 <= value < 1 << 63 for value in header.sequences.values()
        ):
            raise self._damaged("line 1: the sequences are wrong")

    def _check_footer(self, line: bytes, digest: str, digests: Digests) -> Footer:
        try:
            footer = _footer.decode(line)
        except _UNREADABLE:
            raise self._damaged("its end is missing") from None
        if not line.endswith(b"\n") or self._file.read(1):
            raise self._damaged("its last line is not its end")
        if footer.sha256 != digest or footer.tables != digests.tables():
            raise self._damaged("its digests differ from its content")
        return footer

    def _damaged(self, words: str) -> InvalidSpec:
        return InvalidSpec(
            f"{self._name} is incomplete or was changed: {words}", hint="export the database again"
        )


def _parsed(line: bytes) -> tuple[Table, dict[str, Any]]:
    parsed = _row_line.decode(line)
    if (table := TABLES.get(parsed.table)) is None:
        raise InvalidSpec(f"there is no table {parsed.table}")
    return table, table.decoded(parsed.row)
