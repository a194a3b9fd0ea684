"""A host's run directory: private and locked, with a directory for each of its plugins.

The lock is held while the host lives. The directory of a killed host has no lock and is removed when the next
host starts. That never hits a live host, because the lock is taken before the directory is removed.
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

from plughost._util.rmtree import rmtree
from plughost._util.temp_dir import shared_temp_dir
from plughost.errors import SandboxUnavailable
from plughost.sandbox.untrusted_temp_dir import READABLE, open_folder, set_mode
from plughost.sandbox.users import User, Users

PREFIX = "plughost-host-"
MOST_SWEPT = 64
"""Abandoned directories that one start removes; the next start removes more."""


class RunDir:
    """Use it as a context manager, or call `close`. `base` is the directory in which hosts create their run
    directories."""

    def __init__(self, base: str | None = None, users: Users | None = None) -> None:
        self.base = os.path.realpath(base or default_base())
        self.users = users or Users()
        self._plugin_dirs: dict[str, PluginDir] = {}
        self._numbers = itertools.count()
        self._thread_lock = threading.Lock()
        """Sandboxes are prepared in threads, several at once."""
        self._removal_lock = threading.RLock()
        """Two threads that remove the same folders would stop each other, and leave some."""
        self._pid = os.getpid()
        remove_abandoned(self.base)
        self.path, self._lock = create_locked_dir(self.base)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def plugin_dir(self, plugin: str) -> PluginDir:
        """The plugin's directory, the same one every time. Where the host is root, it comes with a user."""
        with self._thread_lock:
            return self._plugin_dir(plugin)

    def _plugin_dir(self, plugin: str) -> PluginDir:
        if plugin not in self._plugin_dirs:
            user = self.users.take(plugin) if os.geteuid() == 0 else None
            # A number, not the plugin's name: the path of a socket has at most 107 bytes, a name any number.
            path = os.path.join(self.path, str(next(self._numbers)))
            with _new_dir(path) as folder:
                if user is not None:
                    os.fchown(folder, 0, user.gid)
                    os.fchmod(folder, 0o710)
            self._plugin_dirs[plugin] = PluginDir(path, user)
        return self._plugin_dirs[plugin]

    def leave(self, plugin: str) -> None:
        """Remove the directory of a plugin that has ended, if it has one, and give its user back. Blocks."""
        with self._removal_lock:
            with self._thread_lock:
                plugin_dir = self._plugin_dirs.pop(plugin, None)
            if plugin_dir is not None:
                rmtree(plugin_dir.path)
            with self._thread_lock:
                self.users.give_back(plugin)

    def reachable(self, program: str) -> str:
        """A copy of one of our programs in the run directory, for users who cannot reach the original."""
        copy = os.path.join(self.path, os.path.basename(program))
        with self._thread_lock:
            if not os.path.exists(copy):
                # Copied to another name first: a copy that a full disk has truncated must not be executed.
                shutil.copyfile(program, f"{copy}.new")
                os.chmod(f"{copy}.new", 0o755)
                os.rename(f"{copy}.new", copy)
        return copy

    def close(self) -> None:
        """Remove the directory. Plugins must have ended. In a forked child it does nothing."""
        if os.getpid() != self._pid:
            return
        with self._removal_lock:
            if self._lock >= 0:
                rmtree(self.path)
                os.close(self._lock)
                self._lock = -1
                self.users.close()


class PluginDir:
    """One plugin's directory in the run directory of its host. The plugin itself sees only parts of it."""

    def __init__(self, path: str, user: User | None) -> None:
        self.path = path
        self.user = user
        """The user that the plugin runs as, when that is not the host's own user."""

    def write_etc(
        self,
        files: Mapping[str, bytes],
        places: Iterable[str] = (),
        links: Iterable[tuple[str, str]] = (),
    ) -> str:
        """Create a directory that becomes the plugin's /etc, with these files and symlinks, and return its
        path.

        `places` are paths of the machine's /etc that will be mounted in it. The same contents give the same
        directory, and a directory is never changed: running processes still use it.
        """
        import hashlib

        wanted = repr((sorted(files.items()), sorted(places := [*places]), sorted(links := [*links])))
        etc = os.path.join(self.path, f"etc-{hashlib.sha256(wanted.encode()).hexdigest()[:16]}")
        if os.path.isdir(etc):
            return etc
        made = f"{etc}.new"
        _make_readable_dir(made)
        for name, content in files.items():
            path = os.path.join(made, name)
            with open(path, "wb") as file:
                file.write(content)
                os.fchmod(file.fileno(), 0o644)
        for path in places:
            place = os.path.join(made, os.path.relpath(path, "/etc"))
            if os.path.isdir(path):
                _make_readable_dir(place)
            else:
                _make_readable_dir(os.path.dirname(place))
                with open(place, "ab"):
                    pass
        for path, text in links:
            link = os.path.join(made, os.path.relpath(path, "/etc"))
            _make_readable_dir(os.path.dirname(link))
            if not os.path.lexists(link):
                os.symlink(text, link)
        os.rename(made, etc)
        return etc

    def scratch(self) -> str:
        """A directory that the plugin may write to, for a class that cannot give it a /tmp of its own."""
        path = os.path.join(self.path, "scratch")
        if not os.path.isdir(path):
            with _new_dir(path) as folder:
                if self.user is not None:
                    os.fchown(folder, *self.user)
        return path


def default_base() -> str:
    """XDG_RUNTIME_DIR when this user has one and is not root; else the shared temporary directory."""
    own = os.environ.get("XDG_RUNTIME_DIR", "")
    if os.path.isabs(own) and os.geteuid() != 0 and os.access(own, os.W_OK | os.X_OK):
        return own
    return shared_temp_dir()


def remove_abandoned(base: str, prefix: str = PREFIX) -> None:
    """Remove the directories that killed hosts of this user have left."""
    removed = 0
    for entry in _entries(base):
        if not entry.name.startswith(prefix) or removed == MOST_SWEPT:
            continue
        try:
            fd = os.open(entry.path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError:
            continue
        try:
            if os.fstat(fd).st_uid == os.geteuid():
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                rmtree(entry.path)
                removed += 1
        except OSError:
            pass  # locked: its host is alive
        finally:
            os.close(fd)


def _entries(base: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(base) as entries:
            return list(entries)
    except OSError:
        return []  # creating a directory there will fail with the reason


def create_locked_dir(base: str, prefix: str = PREFIX) -> tuple[str, int]:
    """Create a directory and lock it. Retries when another host's cleanup removes the directory between the
    two steps."""
    for _ in range(100):
        path = ""
        try:
            path = tempfile.mkdtemp(prefix=prefix, dir=base)
            fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except FileNotFoundError as error:
            if os.path.isdir(base):
                continue
            raise _no_run_dir(base, error) from error
        except OSError as error:
            if path:
                os.rmdir(path)
            raise _no_run_dir(base, error) from error
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.path.samestat(os.stat(path), os.fstat(fd)):
                if os.geteuid() == 0:
                    os.fchmod(fd, 0o711)  # plugins with other users pass through it to their own directory
                return path, fd
        except OSError:
            pass
        os.close(fd)
    raise _no_run_dir(base, "it is repeatedly removed")


def _no_run_dir(base: str, why: object) -> SandboxUnavailable:
    return SandboxUnavailable(
        f"no private folder can be made in {base}: {why}", hint="set TMPDIR to a folder that can be written"
    )


@contextlib.contextmanager
def _new_dir(path: str) -> Iterator[int]:
    """Create and open a directory, which is removed again if the body of the `with` statement fails."""
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


def _make_readable_dir(path: str) -> None:
    os.makedirs(path, exist_ok=True)
    set_mode(path, READABLE)
