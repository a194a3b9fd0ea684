"""Control groups: the kernel counts what all processes of a plugin use together, and holds them to it.

A group is made below a parent that plughost may write to: one that is delegated (v2), or one that the
operator names (v1 or v2). Where there is none, `meter.py` counts instead.
"""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Mapping

import msgspec

from plughost.base.errors import InvalidSpec

PROC = "/proc"
_CONTROLLERS = ("memory", "pids")
_OURS = re.compile(r"plughost-(\d+)-\d+")
_numbers = itertools.count(1)


class Parent(msgspec.Struct, frozen=True):
    """Where groups can be made: one folder for both controllers (v2), or one each (v1)."""

    version: int
    folders: Mapping[str, str]

    def make(self, memory: int | None, processes: int | None) -> Group:
        """A new group with these limits. OSError when the kernel will not have it."""
        name = f"plughost-{os.getpid()}-{next(_numbers)}"
        group = Group(tuple(dict.fromkeys(os.path.join(folder, name) for folder in self.folders.values())))
        try:
            for folder in group.folders:
                os.mkdir(folder)
            for file, value in self._settings(name, memory, processes):
                _write(file, value)
        except OSError:
            group.remove()
            raise
        return group

    def _settings(self, name: str, memory: int | None, processes: int | None) -> list[tuple[str, str]]:
        settings = []
        if memory is not None:
            folder = os.path.join(self.folders["memory"], name)
            if self.version == 2:
                settings.append((f"{folder}/memory.max", str(memory)))
                settings += [
                    (f"{folder}/{file}", value)
                    for file, value in (("memory.swap.max", "0"), ("memory.oom.group", "1"))
                    if os.path.exists(f"{folder}/{file}")  # not without swap, or before Linux 4.19
                ]
            else:
                settings.append((f"{folder}/memory.limit_in_bytes", str(memory)))
        if processes is not None:
            settings.append((f"{os.path.join(self.folders['pids'], name)}/pids.max", str(processes)))
        return settings

    def sweep(self) -> None:
        """Remove the empty groups of hosts that are gone."""
        for folder in set(self.folders.values()):
            for name in os.listdir(folder):
                match = _OURS.fullmatch(name)
                if match and not os.path.exists(f"{PROC}/{match[1]}"):
                    Group((os.path.join(folder, name),)).remove()


class Group(msgspec.Struct, frozen=True):
    folders: tuple[str, ...]

    @property
    def doors(self) -> tuple[str, ...]:
        """Files a process writes 0 to, to be in the group with all its children to come."""
        return tuple(f"{folder}/cgroup.procs" for folder in self.folders)

    def remove(self) -> None:
        """Once nothing runs in it; what cannot be removed now is swept by a later host."""
        for folder in self.folders:
            try:
                os.rmdir(folder)
            except OSError:
                pass


def find(named: str | None = None, mounts: str = "/sys/fs/cgroup") -> Parent | None:
    """The parent that the operator named, or one that is delegated; None when there is neither.

    `named` is a group's path below the mount, such as /plughost. InvalidSpec when it is not usable.
    """
    for base in (mounts, os.path.join(mounts, "unified")):
        if os.path.exists(os.path.join(base, "cgroup.controllers")):
            folder = base + (named or _own_group())
            enabled = set(_read(f"{folder}/cgroup.subtree_control").split())
            if enabled >= set(_CONTROLLERS) and os.access(folder, os.W_OK):
                return Parent(2, dict.fromkeys(_CONTROLLERS, folder))
    if named is None:
        return None  # a v1 group is never delegated: one that could be written to may be anybody's
    folders = {name: os.path.join(mounts, name) + named for name in _CONTROLLERS}
    for folder in folders.values():
        if not os.access(folder, os.W_OK):
            raise InvalidSpec(
                f"no plugin can be put below the control group {named!r}: {folder} is not a folder that "
                "this user may write to, with the controllers memory and pids"
            )
    return Parent(1, folders)


def _own_group() -> str:
    for line in _read(f"{PROC}/self/cgroup").splitlines():
        if line.startswith("0::"):
            return line[3:]
    return "/"


def _read(path: str) -> str:
    try:
        with open(path) as file:
            return file.read()
    except OSError:
        return ""


def _write(path: str, value: str) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(fd, value.encode())
    finally:
        os.close(fd)
