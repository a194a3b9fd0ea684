"""Backup of a state folder's database while hosts use it, and restore into a new folder (SQLite)."""

from __future__ import annotations

import asyncio
import os
import shutil
import sqlite3
from contextlib import closing

from plughost._util.sqlite import create_private
from plughost.errors import HostFailed, InvalidSpec
from plughost.vai.database.migrations import pending
from plughost.vai.database.open_database import FILE, open_database
from plughost.vai.database.sqlite import SqliteDatabase
from plughost.vai.maintenance.new_file import new_file
from plughost.vai.maintenance.state_folder import check_has_database, check_no_host, database_files
from plughost.vai.maintenance.unfinished_work import end_unfinished_work
from plughost.vai.records.recovery import recover


async def backup(folder: str, path: str) -> None:
    """Copies the database of a state folder into a new file: one consistent moment, which has everything that
    was acknowledged before. Hosts go on working meanwhile."""
    check_has_database(folder)
    with new_file(path) as temporary:
        database = open_database(folder)
        assert isinstance(database, SqliteDatabase)
        try:
            await recover(folder, database)  # the last lines of the hosts' journals
            await database.backup(temporary)
        finally:
            await database.close()


async def restore(path: str, folder: str) -> None:
    """Makes a state folder from a backup. InvalidSpec when the folder has a database or a running host, or
    when the file is not an intact backup."""
    _check_is_free(folder)
    await asyncio.to_thread(_check_is_backup, path)
    try:
        os.makedirs(folder, 0o700, exist_ok=True)
    except OSError as error:
        raise HostFailed(
            f"{folder} cannot be created: {error.strerror}", hint="check the owner of the folder above it"
        ) from error
    with new_file(os.path.join(folder, FILE)) as temporary:
        create_private(temporary, exclusive=True)
        await asyncio.to_thread(shutil.copyfile, path, temporary)
        await asyncio.to_thread(_check_integrity, temporary, path)
        database = SqliteDatabase(temporary)
        try:
            await database.write(end_unfinished_work)
        finally:
            await database.close()


def _check_is_free(folder: str) -> None:
    if found := database_files(folder):
        raise InvalidSpec(
            f"{folder} already has a database: {', '.join(found)}",
            hint="choose a new folder, or move these files away first",
        )
    check_no_host(folder)


def _check_is_backup(path: str) -> None:
    try:
        with open(path, "rb") as file:
            start = file.read(20)
    except OSError as error:
        raise InvalidSpec(f"{path} cannot be read: {error.strerror}") from error
    if start[:16] != b"SQLite format 3\0":
        hint = "plughost database import" if start.startswith(b"{") else "plughost database backup"
        raise InvalidSpec(f"{path} is not a backup of a database", hint=f"see {hint} --help")
    if start[18:] != b"\1\1":  # journal_mode = WAL: the newest transactions may be in a second file
        raise InvalidSpec(
            f"{path} is the database of a state folder, not a backup",
            hint="back it up first: plughost database backup --state DIR FILE",
        )


def _check_integrity(copy: str, path: str) -> None:
    try:
        with closing(sqlite3.connect(copy)) as connection:
            version = connection.execute("PRAGMA user_version").fetchone()[0]
            (found,) = connection.execute("PRAGMA integrity_check(1)").fetchone()
            tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_schema")}
    except sqlite3.Error as error:
        raise InvalidSpec(f"{path} is damaged: {error}", hint="use another backup") from error
    if found != "ok":
        raise InvalidSpec(f"{path} is damaged: {found}", hint="use another backup")
    if version == 0 or not tables >= {"meta", "invocations"}:  # which every version has
        raise InvalidSpec(f"{path} is not a database of plughost", hint="see plughost database backup --help")
    pending("sqlite", version, path)  # a newer one is refused
