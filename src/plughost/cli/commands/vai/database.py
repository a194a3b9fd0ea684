"""`plughost database`: backs up, restores, exports and imports the database of vai."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click
import msgspec

from plughost.cli.commands.vai.invoke import default_state_folder, state_option
from plughost.cli.options.groups import Group
from plughost.cli.ui import output

if TYPE_CHECKING:
    from plughost.vai.database.database import Database
    from plughost.vai.maintenance.export_file import Footer

T = TypeVar("T")

database_option = click.option(
    "--database",
    "url",
    metavar="URL",
    help="PostgreSQL database: postgresql://USER@HOST/NAME. Default: the SQLite file in --state.",
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
file_argument = click.argument("file", type=click.Path(path_type=Path))


@click.group(cls=Group)
def database() -> None:
    """Back up, restore, export and import records and tenant state."""


@database.command()
@state_option
@json_option
@file_argument
def backup(file: Path, state: Path | None, as_json: bool) -> None:
    """Copy the SQLite database of a state folder into a new FILE.

    Hosts can go on working. The copy is one consistent moment and has everything that was acknowledged before
    the command began. Only you can read the file.

    \b
    Examples:
      plughost database backup vai-backup.db
      plughost database backup /backup/vai.db --state /var/lib/plughost/invocations
    """
    from plughost.vai.maintenance.backup import backup

    folder = _folder(state)
    asyncio.run(backup(folder, str(file)))
    size = file.stat().st_size
    if as_json:
        output.answer({"file": str(file), "state": folder, "bytes": size})
        return
    output.print_line(f"backed up {folder} to {file}: {size} bytes")


@database.command()
@state_option
@json_option
@file_argument
def restore(file: Path, state: Path | None, as_json: bool) -> None:
    """Make a state folder from a backup FILE.

    A folder that has a database or a running host is refused. Work that was under way during the backup is
    ended: invocations fail with the reason host_ended, and claimed deliveries are due again.

    \b
    Example:
      plughost database restore vai-backup.db --state ./restored
    """
    from plughost.vai.maintenance.backup import restore

    folder = _folder(state)
    asyncio.run(restore(str(file), folder))
    if as_json:
        output.answer({"file": str(file), "state": folder})
        return
    output.print_line(f"restored {file} to {folder}")


@database.command()
@state_option
@database_option
@json_option
@file_argument
def export(file: Path, state: Path | None, url: str | None, as_json: bool) -> None:
    """Write all tables as lines of JSON into a new FILE.

    Hosts can go on working: the file has one consistent moment. Only you can read the file. asyncpg takes the
    password of a PostgreSQL user from PGPASSWORD or ~/.pgpass.

    \b
    Examples:
      plughost database export vai.jsonl
      plughost database export vai.jsonl --database postgresql://plughost@db.example.org/plughost
    """
    from plughost.vai.maintenance.state_folder import check_has_database
    from plughost.vai.maintenance.transfer import export_database
    from plughost.vai.records.recovery import recover

    folder = _checked_folder(state, url)
    if url is None:
        check_has_database(folder)

    async def run(database: Database) -> Footer:
        if url is None:
            await recover(folder, database)  # the last lines of the hosts' journals
        return await export_database(database, str(file))

    _report("exported", file, _with_database(folder, url, run), as_json)


@database.command("import")
@state_option
@database_option
@json_option
@file_argument
def import_(file: Path, state: Path | None, url: str | None, as_json: bool) -> None:
    """Store an exported FILE in an empty database.

    The file is checked before anything is stored. All rows are stored in one transaction, read back and
    compared with the file: if anything fails, the database stays empty.

    \b
    Examples:
      plughost database import vai.jsonl --database postgresql://plughost@db.example.org/plughost
      plughost database import vai.jsonl --state ./imported
    """
    from plughost.errors import InvalidSpec
    from plughost.vai.database.open_database import FILE
    from plughost.vai.maintenance.state_folder import check_no_host, database_files
    from plughost.vai.maintenance.transfer import import_database

    folder = _checked_folder(state, url)
    if url is None:
        check_no_host(folder)
        if legacy := [name for name in database_files(folder) if name != FILE]:
            raise InvalidSpec(f"{folder} already has a database: {legacy[0]}", hint="choose a new folder")
    footer = _with_database(folder, url, lambda database: import_database(str(file), database))
    _report("imported", file, footer, as_json)


def _folder(state: Path | None) -> str:
    return str(state or default_state_folder())


def _checked_folder(state: Path | None, url: str | None) -> str:
    if state is not None and url is not None:
        raise click.UsageError("--state and --database exclude each other: give one of them")
    return _folder(state)


def _with_database(folder: str, url: str | None, use: Callable[[Database], Awaitable[T]]) -> T:
    from plughost.vai.database.open_database import open_database

    async def run() -> T:
        database = open_database(folder, url)
        try:
            return await use(database)
        finally:
            await database.close()

    return asyncio.run(run())


def _report(verb: str, file: Path, footer: Footer, as_json: bool) -> None:
    if as_json:
        output.answer({"file": str(file), "tables": msgspec.to_builtins(footer.tables)})
        return
    rows = sum(table.rows for table in footer.tables.values())
    found = [f"  {name}: {table.rows}" for name, table in footer.tables.items() if table.rows]
    output.print_line(f"{verb} {file}: {rows} rows", *found)
