"""Private folders for invocations: writable, bounded, and gone when their invocation is.

Each process has a root that its sandbox may write, and each invocation a folder of its own in it. All of them
are below one folder that is locked while its host lives; what a killed host leaves the next one removes.
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
MOST_COUNTED = 100_000
"""Files and folders of one invocation; more count as over any limit."""
MOST_REMOVED = 2 * MOST_COUNTED
"""Folders that are removed while a process may still make more; what is left goes when the host closes."""
TOO_MUCH = 1 << 62
FASTEST = 1 << 30
"""Bytes a second that a writer is thought to be able to."""
SOONEST, LATEST = 0.02, 0.5
"""Seconds between two looks at how full a folder is."""
LOOKING = 0.05
"""The share of one processor's time that looking at all folders takes, at most, unless it were too late."""


class Scratch:
    """`base` is where hosts have their folders; nothing is made before the first is asked for."""

    def __init__(self, base: str | None = None) -> None:
        self._base = base
        self._path = ""
        self._lock = -1
        self._roots = 0
        self._live: set[str] = set()
        """The folders of invocations that run."""

    def root(self) -> str:
        """Where a new process is to have its invocations' folders. Its keeper makes it, for its user."""
        if self._lock < 0:
            self._path, self._lock = create_locked_dir(self.sweep(), PREFIX)
        self._roots += 1
        return os.path.join(self._path, str(self._roots))

    def sweep(self) -> str:
        """Where hosts have their folders, without those that killed ones have left."""
        base = os.path.realpath(self._base or shared_temp_dir())
        remove_abandoned(base, PREFIX)
        return base

    def make(self, root: str, invocation_id: str) -> str:
        """A folder for one invocation, of the user whose the root is."""
        path = os.path.join(root, invocation_id)
        try:
            os.mkdir(path, 0o700)
            folder = open_folder(path)  # whose process may have put a symlink there meanwhile
            try:
                owner = os.stat(root)
                if owner.st_uid != os.geteuid():
                    os.fchown(folder, owner.st_uid, owner.st_gid)
            finally:
                os.close(folder)
        except OSError as error:
            raise LaunchFailed(f"it can be given no scratch folder: {error.strerror}") from error
        self._live.add(path)
        return path

    def look(self, path: str) -> tuple[int, float]:
        """Bytes of an invocation, in its folder and beside it where nobody has one.

        And the seconds that such a look at every folder takes. Blocking.
        """
        began = time.monotonic()
        total = sum(map(used, [path, *self.strewn(os.path.dirname(path))]))
        return total, (time.monotonic() - began) * len(self._live)

    def strewn(self, root: str) -> list[str]:
        """What a process has left beside its invocations' folders."""
        try:
            return [path for name in os.listdir(root) if (path := os.path.join(root, name)) not in self._live]
        except OSError:
            return []

    async def remove(self, path: str) -> None:
        """With all that is in it, whoever goes away meanwhile."""
        try:
            os.rmdir(path)
        except OSError:
            removed = asyncio.get_running_loop().run_in_executor(None, rmtree, path, MOST_REMOVED)
            try:
                await asyncio.shield(removed)
            except asyncio.CancelledError:
                await asyncio.wait([removed])
                raise
        finally:
            self._live.discard(path)

    async def close(self) -> None:
        """When no process is left that could write."""
        if self._lock >= 0:
            await asyncio.to_thread(rmtree, self._path)
            os.close(self._lock)
            self._lock = -1


def until_next_look(left: int, all_take: float) -> float:
    """Seconds, so that a fast writer is met where its `left` bytes end; longer where much is to be seen."""
    return min(max(left / FASTEST, all_take / LOOKING, SOONEST), LATEST)


def used(path: str) -> int:
    """Bytes on the disk of all that is in a folder, counted without following a link. Blocking.

    What is hidden from a look, too deep or closed, counts as over any limit.
    """
    total = count = 0
    waiting = [path]
    while waiting:
        try:
            with os.scandir(waiting.pop()) as entries:
                for entry in entries:
                    count += 1
                    about = entry.stat(follow_symlinks=False)
                    total += max(about.st_blocks * 512, 512)
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(entry.path)
                    if count > MOST_COUNTED:
                        return TOO_MUCH
        except (FileNotFoundError, NotADirectoryError):
            continue  # gone meanwhile
        except OSError:
            return TOO_MUCH
    return total
