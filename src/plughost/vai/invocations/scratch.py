"""Scratch folders: a private, writable, size-limited folder per invocation, removed when the invocation ends.

Each process has a root folder that its sandbox may write, and each invocation a folder of its own in it. All
roots of a host are in one folder that is locked while the host lives; the next host removes what a killed one
has left.
"""

from __future__ import annotations

import asyncio
import os
import time

from plughost._util.rmtree import rmtree
from plughost._util.temp_dir import shared_temp_dir
from plughost.errors import LaunchFailed
from plughost.sandbox.run_dir import create_locked_dir, remove_abandoned
from plughost.sandbox.untrusted_temp_dir import open_folder

PREFIX = "plughost-scratch-"
MAX_ENTRIES = 100_000
"""Files and folders of one invocation; more count as over any limit."""
MAX_REMOVED = 2 * MAX_ENTRIES
"""Folders to remove while a process may still create more; the rest is removed when the host closes."""
TOO_MUCH = 1 << 62
"""The size reported for a folder that cannot be measured: over any limit."""
MAX_WRITE_RATE = 1 << 30
"""Assumed highest write speed, in bytes a second."""
MIN_INTERVAL, MAX_INTERVAL = 0.02, 0.5
"""Shortest and longest interval between two measurements of a folder, in seconds."""
MAX_LOAD = 0.05
"""The share of one processor that measuring all folders may use, unless `MAX_INTERVAL` demands more."""


class Scratch:
    """The scratch folders of one host, below `base`. Nothing is created before the first `root`."""

    def __init__(self, base: str | None = None) -> None:
        self._base = base
        self._path = ""
        self._lock = -1
        self._roots = 0
        self._live: set[str] = set()
        """The folders of invocations that run."""

    def root(self) -> str:
        """A path for the scratch root of a new process. The sandbox manager creates it, for the process's
        user."""
        if self._lock < 0:
            self._path, self._lock = create_locked_dir(self.sweep(), PREFIX)
        self._roots += 1
        return os.path.join(self._path, str(self._roots))

    def sweep(self) -> str:
        """Removes the folders of killed hosts, and returns the folder in which all hosts have theirs."""
        base = os.path.realpath(self._base or shared_temp_dir())
        remove_abandoned(base, PREFIX)
        return base

    def make(self, root: str, invocation_id: str) -> str:
        """Creates the folder of one invocation, owned by the user who owns the root."""
        path = os.path.join(root, invocation_id)
        try:
            os.mkdir(path, 0o700)
            folder = open_folder(path)  # a running process could have put a symlink there meanwhile
            try:
                owner = os.stat(root)
                if owner.st_uid != os.geteuid():
                    os.fchown(folder, owner.st_uid, owner.st_gid)
            finally:
                os.close(folder)
        except OSError as error:
            raise LaunchFailed(f"its scratch folder cannot be created: {error.strerror}") from error
        self._live.add(path)
        return path

    def measure(self, path: str) -> tuple[int, float]:
        """Measures the bytes that an invocation uses, in its folder and beside it where no invocation has a
        folder.

        Returns them with the estimated seconds that measuring every folder takes. Blocking.
        """
        started = time.monotonic()
        total = sum(map(disk_usage, [path, *self.stray_paths(os.path.dirname(path))]))
        return total, (time.monotonic() - started) * len(self._live)

    def stray_paths(self, root: str) -> list[str]:
        """Files that a process has left in its root, outside the folders of its invocations."""
        try:
            return [path for name in os.listdir(root) if (path := os.path.join(root, name)) not in self._live]
        except OSError:
            return []

    async def remove(self, path: str) -> None:
        """Removes the folder with its content, also when the caller is cancelled meanwhile."""
        try:
            os.rmdir(path)
        except OSError:
            removed = asyncio.get_running_loop().run_in_executor(None, rmtree, path, MAX_REMOVED)
            try:
                await asyncio.shield(removed)
            except asyncio.CancelledError:
                await asyncio.wait([removed])
                raise
        finally:
            self._live.discard(path)

    async def close(self) -> None:
        """Removes all folders of this host. Call it when no process is left that could write."""
        if self._lock >= 0:
            await asyncio.to_thread(rmtree, self._path)
            os.close(self._lock)
            self._lock = -1


def measure_interval(left: int, all_take: float) -> float:
    """Seconds until the next measurement: short enough to catch a fast writer when its `left` bytes are used
    up, longer where measuring all folders takes long."""
    return min(max(left / MAX_WRITE_RATE, all_take / MAX_LOAD, MIN_INTERVAL), MAX_INTERVAL)


def disk_usage(path: str) -> int:
    """Disk usage of a folder in bytes, without following symlinks. Blocking.

    What cannot be measured, because it is too deep or not readable, counts as over any limit.
    """
    total = count = 0
    waiting = [path]
    while waiting:
        try:
            with os.scandir(waiting.pop()) as entries:
                for entry in entries:
                    count += 1
                    info = entry.stat(follow_symlinks=False)
                    total += max(info.st_blocks * 512, 512)
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(entry.path)
                    if count > MAX_ENTRIES:
                        return TOO_MUCH
        except (FileNotFoundError, NotADirectoryError):
            continue  # removed meanwhile
        except OSError:
            return TOO_MUCH
    return total
