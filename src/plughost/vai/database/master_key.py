"""MasterKey: the key that seals what the database must not reveal. Given by the program, or in a file."""

from __future__ import annotations

import asyncio
import os
import secrets
import stat
from collections.abc import Sequence
from pathlib import Path

from plughost._util.fsync import sync, write_new
from plughost.errors import HostFailed, InvalidSpec
from plughost.vai.database.sealing import KEY_BYTES, Seal

FILE = "master.key"
_OPEN = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class MasterKey:
    """The master key of a host: `given`, or in `folder`/master.key, which is created at the first need. Hosts
    that share a database need the same one. While a key is replaced, several are given: the first encrypts,
    all of them decrypt."""

    def __init__(self, folder: str, given: bytes | Sequence[bytes] | None = None) -> None:
        self.path = os.path.join(folder, FILE)
        self._given = () if given is None else _checked(given)

    def __repr__(self) -> str:
        return "<MasterKey given>" if self._given else f"<MasterKey in {self.path}>"

    async def seal(self, *, create: bool) -> Seal | None:
        """The seal of this key. If there is none yet, it is created, or None is returned."""
        if self._given:
            return Seal(*self._given)
        key = await asyncio.to_thread(_find_or_create if create else read_key_file, self.path)
        return None if key is None else Seal(key)


def _checked(given: object) -> tuple[bytes, ...]:
    """The keys that a program gives: one, or several, the newest first."""
    keys = given if isinstance(given, list | tuple) and given else [given]
    for key in keys:
        if type(key) is not bytes or len(key) != KEY_BYTES:
            what = f"{len(key)} bytes" if type(key) is bytes else f"a {type(key).__name__}"
            raise InvalidSpec(
                f"master_key is {what}; expected {KEY_BYTES} bytes",
                hint=f"generate it once with os.urandom({KEY_BYTES}); all hosts of a database need the same",
            )
    return tuple(keys)


def _find_or_create(path: str) -> bytes | None:
    return read_key_file(path) or _create(path)


def _create(path: str) -> bytes | None:
    """Creates the file at once with its content. Of several processes the first one wins."""
    folder = Path(path).parent
    temporary = folder / f"{FILE}.{secrets.token_hex(8)}"
    try:
        os.makedirs(folder, 0o700, exist_ok=True)
        try:
            write_new(temporary, secrets.token_bytes(KEY_BYTES), 0o600)
            os.link(temporary, path)
        except FileExistsError:
            pass
        finally:
            temporary.unlink(missing_ok=True)
        sync(folder)  # what is sealed with the key must not outlive it
    except OSError as error:
        raise HostFailed(
            f"the master key {path} cannot be created: {error.strerror}",
            hint="check the owner of the folder, and its disk",
        ) from None
    return read_key_file(path)


def read_key_file(path: str) -> bytes | None:
    """The key in the file; None when there is no file. HostFailed when others may know the key."""
    try:
        fd = os.open(path, _OPEN)
    except FileNotFoundError:
        return None
    except OSError as error:
        why = "it is a symbolic link" if os.path.islink(path) else error.strerror
        raise HostFailed(
            f"the master key {path} cannot be read: {why}", hint="it must be a file that belongs to this user"
        ) from None
    with open(fd, "rb") as file:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode):
            raise HostFailed(f"the master key {path} is not a file", hint="remove what is in its place")
        if status.st_uid != os.geteuid():
            raise HostFailed(
                f"the master key {path} belongs to another user (uid {status.st_uid})",
                hint="run the host as that user, or change the owner",
            )
        if status.st_mode & 0o077:
            raise HostFailed(
                f"the master key {path} can be read by other users: its mode is "
                f"{stat.S_IMODE(status.st_mode):o}",
                hint=f"chmod 600 {path}",
            )
        key = file.read(KEY_BYTES + 1)
    if len(key) != KEY_BYTES:
        size = f"more than {KEY_BYTES}" if len(key) > KEY_BYTES else str(len(key))
        raise HostFailed(
            f"the master key {path} has {size} bytes; expected {KEY_BYTES}",
            hint="restore the file from a backup",
        )
    return key
