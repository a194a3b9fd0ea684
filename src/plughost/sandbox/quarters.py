"""A host's private folder: a room for each of its plugins, with what their sandboxes are given.

The folder is locked while its host lives. What a killed host leaves has no lock and is removed when the next
host starts; a lock that is taken before it is checked is why that never hits a live one.
"""

from __future__ import annotations

import contextlib
import fcntl
import itertools
import os
import shutil
import tempfile
import threading
from collections.abc import Iterable, Iterator, Mapping
from types import TracebackType
from typing import Self

from plughost.base.errors import Unconfinable
from plughost.base.temporary import everybodys_folder
from plughost.sandbox.removal import remove
from plughost.sandbox.temporary_folder import READABLE, open_folder, set_mode
from plughost.sandbox.users import User, Users

PREFIX = "plughost-host-"
MOST_SWEPT = 64
"""Leftovers that one start removes; the next one goes on."""


class Quarters:
    """`with Quarters() as quarters`, or `close` it; `base` is where hosts have their folders."""

    def __init__(self, base: str | None = None, users: Users | None = None) -> None:
        self.base = os.path.realpath(base or default_base())
        self.users = users or Users()
        self._rooms: dict[str, Room] = {}
        self._numbers = itertools.count()
        self._one_at_a_time = threading.Lock()
        """How plugins are confined is decided in threads, several at once."""
        self._pid = os.getpid()
        sweep(self.base)
        self.path, self._lock = settle(self.base)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def room(self, plugin: str) -> Room:
        """The plugin's room, the same one every time. Where the host is root, it comes with a user."""
        with self._one_at_a_time:
            return self._room(plugin)

    def _room(self, plugin: str) -> Room:
        if plugin not in self._rooms:
            user = self.users.take(plugin) if os.geteuid() == 0 else None
            # Numbered, not named: a socket's path has 107 bytes, and a plugin's name may be anything.
            path = os.path.join(self.path, str(next(self._numbers)))
            with _made(path) as folder:
                if user is not None:
                    os.fchown(folder, 0, user.gid)
                    os.fchmod(folder, 0o710)
            self._rooms[plugin] = Room(path, user)
        return self._rooms[plugin]

    def leave(self, plugin: str) -> None:
        """Removes the plugin's room, if it has one, and gives its user back. It must have ended. Blocking."""
        with self._one_at_a_time:
            room = self._rooms.pop(plugin, None)
        if room is not None:
            remove(room.path)
        with self._one_at_a_time:
            self.users.give_back(plugin)

    def reachable(self, program: str) -> str:
        """A copy of a program of ours, for users who cannot reach it where it is."""
        copy = os.path.join(self.path, os.path.basename(program))
        with self._one_at_a_time:
            if not os.path.exists(copy):
                # Whole or not at all: a copy that a full disk has cut short must not be run.
                shutil.copyfile(program, f"{copy}.new")
                os.chmod(f"{copy}.new", 0o755)
                os.rename(f"{copy}.new", copy)
        return copy

    def close(self) -> None:
        """Removes the folder. Plugins must have ended. A forked child's copy does nothing."""
        if self._lock >= 0 and os.getpid() == self._pid:
            remove(self.path)
            os.close(self._lock)
            self._lock = -1
            self.users.close()


class Room:
    """One plugin's folder in its host's quarters. The plugin itself sees only parts of it."""

    def __init__(self, path: str, user: User | None) -> None:
        self.path = path
        self.user = user
        """Who the plugin runs as, where that is not the host's own user."""

    def furnish(
        self,
        files: Mapping[str, bytes],
        places: Iterable[str] = (),
        links: Iterable[tuple[str, str]] = (),
    ) -> str:
        """A folder that becomes the plugin's /etc, with these files and symlinks.

        `places` are paths of the machine's /etc that will be mounted in it. The same every time for the same
        contents, and never changed: processes that were started with it still live in it.
        """
        import hashlib

        wanted = repr((sorted(files.items()), sorted(places := [*places]), sorted(links := [*links])))
        etc = os.path.join(self.path, f"etc-{hashlib.sha256(wanted.encode()).hexdigest()[:16]}")
        if os.path.isdir(etc):
            return etc
        made = f"{etc}.new"
        _folder(made)
        for name, content in files.items():
            path = os.path.join(made, name)
            with open(path, "wb") as file:
                file.write(content)
                os.fchmod(file.fileno(), 0o644)
        for path in places:
            place = os.path.join(made, os.path.relpath(path, "/etc"))
            if os.path.isdir(path):
                _folder(place)
            else:
                _folder(os.path.dirname(place))
                with open(place, "ab"):
                    pass
        for path, text in links:
            link = os.path.join(made, os.path.relpath(path, "/etc"))
            _folder(os.path.dirname(link))
            if not os.path.lexists(link):
                os.symlink(text, link)
        os.rename(made, etc)
        return etc

    def scratch(self) -> str:
        """A folder that the plugin may fill, for a sandbox that cannot give it a /tmp of its own."""
        path = os.path.join(self.path, "scratch")
        if not os.path.isdir(path):
            with _made(path) as folder:
                if self.user is not None:
                    os.fchown(folder, *self.user)
        return path


def default_base() -> str:
    """This user's own folder for what lives as long as a session, or else everybody's."""
    own = os.environ.get("XDG_RUNTIME_DIR", "")
    if os.path.isabs(own) and os.geteuid() != 0 and os.access(own, os.W_OK | os.X_OK):
        return own
    return everybodys_folder()


def sweep(base: str, prefix: str = PREFIX) -> None:
    """Remove what killed hosts of this user left."""
    swept = 0
    for entry in _entries(base):
        if not entry.name.startswith(prefix) or swept == MOST_SWEPT:
            continue
        try:
            fd = os.open(entry.path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError:
            continue
        try:
            if os.fstat(fd).st_uid == os.geteuid():
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                remove(entry.path)
                swept += 1
        except OSError:
            pass  # its host lives
        finally:
            os.close(fd)


def _entries(base: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(base) as entries:
            return list(entries)
    except OSError:
        return []  # settling there will say what is wrong


def settle(base: str, prefix: str = PREFIX) -> tuple[str, int]:
    """A new folder, locked and still there: another host's sweep may come between making and locking."""
    for _ in range(100):
        path = ""
        try:
            path = tempfile.mkdtemp(prefix=prefix, dir=base)
            fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except FileNotFoundError as error:
            if os.path.isdir(base):
                continue
            raise _homeless(base, error) from error
        except OSError as error:
            if path:
                os.rmdir(path)
            raise _homeless(base, error) from error
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.path.samestat(os.stat(path), os.fstat(fd)):
                if os.geteuid() == 0:
                    os.fchmod(fd, 0o711)  # plugins that are other users pass through it to their own room
                return path, fd
        except OSError:
            pass
        os.close(fd)
    raise _homeless(base, "it is swept again and again")


def _homeless(base: str, why: object) -> Unconfinable:
    return Unconfinable(
        f"no private folder can be made in {base}: {why}", hint="set TMPDIR to a folder that can be written"
    )


@contextlib.contextmanager
def _made(path: str) -> Iterator[int]:
    """A new folder, opened, which is there afterwards only if all that is done to it inside succeeds."""
    os.mkdir(path, 0o700)
    try:
        folder = open_folder(path)
        try:
            yield folder
        finally:
            os.close(folder)
    except BaseException:
        os.rmdir(path)
        raise


def _folder(path: str) -> None:
    os.makedirs(path, exist_ok=True)
    set_mode(path, READABLE)
