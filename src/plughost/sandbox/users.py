"""The users that plugins of a root host run as, and the check that such a user can reach a file.

Every plugin has a uid of its own, the same one every time, because operators give files to it. A uid that was
once given to a plugin's name stays with that name, across reboots too; a name whose hash falls on another
plugin's uid gets the next one. A lock on the record reserves the uid for one host at a time; the kernel
releases the lock however the host ends.
"""

from __future__ import annotations

import fcntl
import os
import stat
import zlib
from collections.abc import Iterable
from typing import NamedTuple

from plughost.errors import SandboxUnavailable
from plughost.sandbox.resolve.user_caches import CACHED

UIDS = range(61184, 65520)
"""The range that systemd reserves for dynamic users: no package and no administrator assigns these uids."""
RECORDS = "/var/lib/plughost/uids"
"""A directory with one file for every uid that was ever assigned; the file holds the plugin's name."""
_TAKEN_BY_SYSTEMD = "/run/systemd/dynamic-uid"
_ACL = "system.posix_acl_access"


class User(NamedTuple):
    """A uid and a gid; as text `uid:gid`."""

    uid: int
    gid: int

    def __str__(self) -> str:
        return f"{self.uid}:{self.gid}"


class Users:
    """Assigns uids to the plugins of one host, each locked until it is given back, or until `close`. With
    `dry_run` nothing is recorded or locked."""

    def __init__(self, records: str = RECORDS, *, dry_run: bool = False) -> None:
        self._records = records
        self._dry_run = dry_run
        self._taken: dict[str, User] = {}
        self._lock_fds: dict[int, int] = {}
        """The locked record of each uid."""

    def take(self, plugin: str) -> User:
        """The plugin's user; the same one when called again."""
        if plugin not in self._taken:
            self._taken[plugin] = self._user(plugin)
        return self._taken[plugin]

    def give_back(self, plugin: str) -> None:
        """No process of it is left. Its uid stays the one of its name."""
        user = self._taken.pop(plugin, None)
        if user is not None and user.uid in self._lock_fds:
            os.close(self._lock_fds.pop(user.uid))

    def close(self) -> None:
        """Release all uids for other hosts."""
        for fd in self._lock_fds.values():
            os.close(fd)
        self._lock_fds.clear()
        self._taken.clear()

    def _user(self, plugin: str) -> User:
        record = plugin.encode(errors="surrogateescape") + b"\n"
        try:
            if self._dry_run:
                return self._predict(record)
            os.makedirs(self._records, 0o700, exist_ok=True)
            if os.lstat(self._records).st_uid != os.geteuid():
                raise PermissionError(f"{self._records} belongs to another user")
            occupied = _named_uids() | _dynamic_uids()
            start = zlib.crc32(record[:-1])
            free = []
            for step in range(len(UIDS)):
                uid = UIDS[(start + step) % len(UIDS)]
                if uid in occupied or not is_mapped(uid):
                    continue
                if self._lock_uid(uid, record, (b"", record)):
                    return User(uid, uid)
                free.append(uid)
            # All uids are assigned: reassign the one that has not been used for the longest time.
            for uid in sorted(free, key=self._last_used):
                if self._lock_uid(uid, record):
                    return User(uid, uid)
        except OSError as error:
            raise SandboxUnavailable(
                f"no user id could be reserved for it: {error}",
                hint=f"make {self._records} writable for root",
            ) from error
        raise SandboxUnavailable(
            "no user id is left for it, and plugins do not run as root",
            hint=f"map the uids {UIDS[0]} to {UIDS[-1]} into this container, or run the host as another user",
        )

    def _predict(self, record: bytes) -> User:
        """The user that `take` would choose now."""
        occupied = _named_uids() | _dynamic_uids()
        start = zlib.crc32(record[:-1])
        for step in range(len(UIDS)):
            uid = UIDS[(start + step) % len(UIDS)]
            if uid not in occupied and is_mapped(uid) and self._recorded(uid) in (b"", record):
                return User(uid, uid)
        raise FileNotFoundError("every uid is assigned to another plugin")

    def _recorded(self, uid: int) -> bytes:
        try:
            with open(f"{self._records}/{uid}", "rb") as file:
                return file.read()
        except FileNotFoundError:
            return b""

    def _lock_uid(self, uid: int, record: bytes, before: tuple[bytes, ...] | None = None) -> bool:
        """Lock the uid and record its plugin, if the present record is one of `before`; None accepts any
        record."""
        fd = os.open(f"{self._records}/{uid}", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if before is None or os.pread(fd, len(record) + 1, 0) in before:
                if os.pread(fd, len(record) + 1, 0) == record:
                    os.utime(fd)  # not rewritten: on a full disk the record would be lost
                else:
                    os.ftruncate(fd, 0)
                    os.pwrite(fd, record, 0)
                self._lock_fds[uid] = fd
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
    """Returns the first file or directory on the way to a real path that the user cannot pass; None when
    there is none.

    Judged by owner, group and mode. A file with an ACL counts as open: the kernel decides.
    """
    folders = [path[: place or 1] for place, letter in enumerate(path) if letter == "/" and path != "/"]
    for folder in folders:
        if not _allows(folder, user, os.X_OK):
            return folder
    return None if _allows(path, user, wanted) else path


def check_reachable(paths: Iterable[str], user: User, wanted: int = os.R_OK) -> None:
    """Raises SandboxUnavailable for a path that the plugin's user cannot access."""
    for path in paths:
        closed = barrier(path, user, wanted)
        if closed is None:
            continue
        mode = stat.S_IMODE(os.stat(closed).st_mode)
        if wanted & os.W_OK:
            hint = f"give that user access: chown {user.uid} {path}, or setfacl -m u:{user.uid}:rwX {path}"
        elif CACHED.fullmatch(path):
            hint = (
                "install it where every user can reach it, such as /usr/local/bin: it is in a private cache"
            )
        else:
            hint = (
                "install it where every user can reach it, or make the folder accessible (chmod o+x "
                f"{closed}); "
                "or run the host as its owner"
            )
        raise SandboxUnavailable(
            f"{path} is not accessible for uid {user.uid}, the plugin's user: {closed} has mode {mode:04o}",
            hint=hint,
        )


def is_mapped(uid: int) -> bool:
    """Whether the uid exists in our own user namespace."""
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


def _named_uids() -> set[int]:
    """Uids that have a name in /etc/passwd."""
    with open("/etc/passwd", encoding="utf-8", errors="replace") as lines:
        fields = [line.split(":") for line in lines]
    return {int(field[2]) for field in fields if len(field) > 2 and field[2].isdigit()}


def _dynamic_uids() -> set[int]:
    """Uids that systemd uses for dynamic users at present."""
    try:
        return {int(name) for name in os.listdir(_TAKEN_BY_SYSTEMD) if name.isdigit()}
    except OSError:
        return set()
