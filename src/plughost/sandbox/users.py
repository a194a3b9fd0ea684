"""Which user a plugin of a root host becomes, and what that user can reach.

Every plugin has a uid of its own, the same one every time: operators give files to it. So a uid that was once
given to a name stays that name's, across reboots too; a plugin called so that it falls on another's uid gets
the next one. A lock on the record makes the uid one host's at a time, and ends however the host ends.
"""

from __future__ import annotations

import fcntl
import os
import stat
import zlib
from collections.abc import Iterable
from typing import NamedTuple

from plughost.base.errors import Unconfinable
from plughost.sandbox.caches import CACHED

UIDS = range(61184, 65520)
"""Kept for users that exist only while they run: no package and no administrator gives them away."""
RECORDS = "/var/lib/plughost/uids"
"""A file for every uid that was ever given away, with the name it belongs to."""
_TAKEN_BY_SYSTEMD = "/run/systemd/dynamic-uid"
_ACL = "system.posix_acl_access"


class User(NamedTuple):
    uid: int
    gid: int

    def __str__(self) -> str:
        return f"{self.uid}:{self.gid}"


class Users:
    """The users of one host's plugins, each held until it is given back, or `close`; foreseen only, nothing
    is recorded."""

    def __init__(self, records: str = RECORDS, *, foreseen: bool = False) -> None:
        self._records = records
        self._foreseen = foreseen
        self._taken: dict[str, User] = {}
        self._held: dict[int, int] = {}
        """The locked record of each uid."""

    def take(self, plugin: str) -> User:
        """The plugin's user; the same one when asked again."""
        if plugin not in self._taken:
            self._taken[plugin] = self._user(plugin)
        return self._taken[plugin]

    def give_back(self, plugin: str) -> None:
        """No process of it is left. Its uid stays the one of its name."""
        user = self._taken.pop(plugin, None)
        if user is not None and user.uid in self._held:
            os.close(self._held.pop(user.uid))

    def close(self) -> None:
        for fd in self._held.values():
            os.close(fd)
        self._held.clear()
        self._taken.clear()

    def _user(self, plugin: str) -> User:
        record = plugin.encode(errors="surrogateescape") + b"\n"
        try:
            if self._foreseen:
                return self._foresee(record)
            os.makedirs(self._records, 0o700, exist_ok=True)
            if os.lstat(self._records).st_uid != os.geteuid():
                raise PermissionError(f"{self._records} is somebody else's")
            occupied = _known() | _dynamic()
            start = zlib.crc32(record[:-1])
            free = []
            for step in range(len(UIDS)):
                uid = UIDS[(start + step) % len(UIDS)]
                if uid in occupied or not is_mapped(uid):
                    continue
                if self._hold(uid, record, (b"", record)):
                    return User(uid, uid)
                free.append(uid)
            # Every one has been somebody's: that changes hands which nobody has used for longest.
            for uid in sorted(free, key=self._last_used):
                if self._hold(uid, record):
                    return User(uid, uid)
        except OSError as error:
            raise Unconfinable(
                f"no user could be kept for it: {error}", hint=f"make {self._records} writable for root"
            ) from error
        raise Unconfinable(
            "there is no user left that it could become, and as root it is not run",
            hint=f"map the uids {UIDS[0]} to {UIDS[-1]} into this container, or run the host as another user",
        )

    def _foresee(self, record: bytes) -> User:
        """Whom `take` would find, if a host took it now."""
        occupied = _known() | _dynamic()
        start = zlib.crc32(record[:-1])
        for step in range(len(UIDS)):
            uid = UIDS[(start + step) % len(UIDS)]
            if uid not in occupied and is_mapped(uid) and self._recorded(uid) in (b"", record):
                return User(uid, uid)
        raise FileNotFoundError("every uid is another plugin's")

    def _recorded(self, uid: int) -> bytes:
        try:
            with open(f"{self._records}/{uid}", "rb") as file:
                return file.read()
        except FileNotFoundError:
            return b""

    def _hold(self, uid: int, record: bytes, before: tuple[bytes, ...] | None = None) -> bool:
        """Lock the uid and record whose it is, if one of these was its record before; None is for any."""
        fd = os.open(f"{self._records}/{uid}", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if before is None or os.pread(fd, len(record) + 1, 0) in before:
                if os.pread(fd, len(record) + 1, 0) == record:
                    os.utime(fd)  # not written anew: on a full disk the record would be lost
                else:
                    os.ftruncate(fd, 0)
                    os.pwrite(fd, record, 0)
                self._held[uid] = fd
                return True
        except BlockingIOError:
            pass
        except BaseException:
            os.close(fd)
            raise
        os.close(fd)
        return False

    def _last_used(self, uid: int) -> int:
        return os.stat(f"{self._records}/{uid}").st_mtime_ns


def barrier(path: str, user: User, wanted: int = os.R_OK) -> str | None:
    """The first file or folder on the way to a real path that the user cannot pass; None when all is open.

    Judged by owner, group and mode; an access list is left to the kernel.
    """
    way = [path[: place or 1] for place, letter in enumerate(path) if letter == "/" and path != "/"]
    for folder in way:
        if not _allows(folder, user, os.X_OK):
            return folder
    return None if _allows(path, user, wanted) else path


def check_reach(paths: Iterable[str], user: User, wanted: int = os.R_OK) -> None:
    """Unconfinable for what the plugin's user cannot get at."""
    for path in paths:
        closed = barrier(path, user, wanted)
        if closed is None:
            continue
        mode = stat.S_IMODE(os.stat(closed).st_mode)
        if wanted & os.W_OK:
            hint = f"let that user in: chown {user.uid} {path}, or setfacl -m u:{user.uid}:rwX {path}"
        elif CACHED.fullmatch(path):
            hint = (
                "install it where every user can reach it, such as /usr/local/bin: it is in a private cache"
            )
        else:
            hint = (
                f"install it where every user can reach it, or open the way (chmod o+x {closed}); "
                "or run the host as the user it belongs to"
            )
        raise Unconfinable(
            f"{path} is out of reach for uid {user.uid}, as which the plugin runs: {closed} is {mode:04o}",
            hint=hint,
        )


def is_mapped(uid: int) -> bool:
    """Whether there is such a user in our own user namespace."""
    try:
        with open("/proc/self/uid_map", encoding="ascii") as text:
            ranges = [[int(word) for word in line.split()] for line in text]
    except OSError:
        return True
    return any(first <= uid < first + count for first, _, count in ranges)


def _allows(path: str, user: User, wanted: int) -> bool:
    try:
        info = os.stat(path)
        if _ACL in os.listxattr(path):
            return True
    except FileNotFoundError:
        return False
    except OSError:
        return True
    shift = 6 if info.st_uid == user.uid else 3 if info.st_gid == user.gid else 0
    return (info.st_mode >> shift) & wanted == wanted


def _known() -> set[int]:
    """Uids that have a name on this machine."""
    with open("/etc/passwd", encoding="utf-8", errors="replace") as lines:
        fields = [line.split(":") for line in lines]
    return {int(field[2]) for field in fields if len(field) > 2 and field[2].isdigit()}


def _dynamic() -> set[int]:
    try:
        return {int(name) for name in os.listdir(_TAKEN_BY_SYSTEMD) if name.isdigit()}
    except OSError:
        return set()
