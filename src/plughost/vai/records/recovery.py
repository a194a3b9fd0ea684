"""Recovery of journals: inserts what a killed host left in its files into the database, and ends its work."""

from __future__ import annotations

import asyncio
import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import ExitStack
from typing import BinaryIO

from plughost.vai.database.database import Database
from plughost.vai.records.journal import BATCH_BYTES, NEW, SUFFIX
from plughost.vai.records.records import Records
from plughost.vai.records.refused_lines import set_aside
from plughost.vai.records.retention import Retention
from plughost.vai.state.leases import end_host
from plughost.vai.state.retention import StatePruner


async def recover(folder: str, database: Database, retention: Retention | None = None) -> None:
    """Recovers journals: inserts what live hosts wrote, and ends what dead hosts left.

    With a `retention`, also prunes one batch of records, events and deliveries.
    """
    records, dead = Records(database), dict[str, list[str]]()
    with ExitStack() as stack:
        files = await asyncio.to_thread(lambda: [*_open_files(folder)])
        for _, _, file in files:
            stack.enter_context(file)
        if files:  # before one is locked here: what takes over files of earlier versions asks for these locks
            await database.open()
        for host, path, file in files:
            locked = _is_locked(file.fileno())
            lines = _whole_lines(await asyncio.to_thread(file.read))
            refused = [line for batch in _batches(lines) for line in await records.insert(host, batch)]
            # A host that closes unlinks its file, then unlocks it.
            if not locked and os.fstat(file.fileno()).st_nlink:
                dead.setdefault(host, []).append(path)
                await set_aside(folder, refused)  # a live host does that itself
            file.close()
    for host, paths in dead.items():
        await database.write(end_host, host)
        for path in paths:
            _unlink(path)
    if retention is not None:
        await records.prune(retention, time.time())
        await StatePruner(database, retention).prune(time.time())


def _batches(lines: list[bytes]) -> Iterator[list[bytes]]:
    """Lines in batches of about BATCH_BYTES."""
    batch: list[bytes] = []
    size = 0
    for line in lines:
        batch.append(line)
        size += len(line)
        if size >= BATCH_BYTES:
            yield batch
            batch, size = [], 0
    yield batch


def _open_files(folder: str) -> Iterator[tuple[str, str, BinaryIO]]:
    names = os.listdir(folder) if os.path.isdir(folder) else ()
    for name in sorted(names, key=_file_order):
        if not name.endswith((SUFFIX, SUFFIX + NEW)):
            continue
        path = os.path.join(folder, name)
        try:
            fd = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
        except FileNotFoundError:
            continue  # its host has removed it
        if name.endswith(SUFFIX):
            yield name.partition(".")[0], path, os.fdopen(fd, "rb")
            continue
        if not _is_locked(fd):
            _unlink(path)
        os.close(fd)


def _file_order(name: str) -> tuple[str, int]:
    """Sort key: the files of a host in the order of their numbers, so that a start is inserted before its
    events."""
    host, _, rest = name.partition(".")
    number = rest.partition(".")[0]
    return host, int(number) if number.isdecimal() else 0


def _unlink(path: str) -> None:
    try:
        os.unlink(path)
    except FileNotFoundError:
        pass  # another process has recovered it, too


def _is_locked(fd: int) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    return False


def _whole_lines(data: bytes) -> list[bytes]:
    """Complete lines only: a host killed in the middle of a line had not released that answer."""
    return data[: data.rfind(b"\n") + 1].splitlines()
