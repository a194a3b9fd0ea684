"""State folders: whether one has a database, and whether a host uses it."""

from __future__ import annotations

import fcntl
import os

from plughost.errors import InvalidSpec
from plughost.vai.database.legacy import VERSIONS
from plughost.vai.database.open_database import FILE
from plughost.vai.records.journal import SUFFIX


def database_files(folder: str) -> list[str]:
    """The names of the databases in a folder, also of those of earlier versions."""
    return [name for name in (FILE, *VERSIONS) if os.path.lexists(os.path.join(folder, name))]


def check_has_database(folder: str) -> None:
    """InvalidSpec for a folder without a database: opening it would create one."""
    if not database_files(folder):
        raise InvalidSpec(f"{folder} has no database", hint="give the state folder of a host: --state DIR")


def check_no_host(folder: str) -> None:
    """InvalidSpec for a folder that a running host uses."""
    for name in os.listdir(folder) if os.path.isdir(folder) else ():
        if name.endswith(SUFFIX) and _is_locked(os.path.join(folder, name)):
            raise InvalidSpec(f"a running host uses {folder}", hint="stop the host, or choose another folder")


def _is_locked(path: str) -> bool:
    try:
        with open(path, "rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except FileNotFoundError:
        pass  # its host has removed it
    return False
