"""Control groups (cgroups): the kernel limits the memory and the number of all processes of a plugin
together.

A group is created below a parent: the one that systemd has delegated to this service (v2), or one that the
operator names (v1 or v2). Where there is none, `meter.py` measures memory instead.
"""

from __future__ import annotations

import errno
import itertools
import os
import re
from collections.abc import Mapping

import msgspec

from plughost.errors import InvalidSpec

PROC = "/proc"
HOSTS = "plughost-hosts"
"""The group that hosts move to: in v2, a group whose children have limits can have no processes of its
own."""
_CONTROLLERS = ("memory", "pids")
_ENABLED = "cgroup.subtree_control"
_DELEGATED = ("user.delegate", "trusted.delegate")
"""The extended attributes by which systemd marks a delegated group."""
_MOVE_ATTEMPTS = 100
_GROUP_NAME = re.compile(r"plughost-(\d+)-\d+")
_numbers = itertools.count(1)


class CgroupParent(msgspec.Struct, frozen=True):
    """Where control groups can be created: one directory for both controllers (v2), or one each (v1)."""

    version: int
    folders: Mapping[str, str]

    def make(self, memory: int | None, processes: int | None) -> Cgroup:
        """Create a group with these limits. OSError when the kernel refuses."""
        name = f"plughost-{os.getpid()}-{next(_numbers)}"
        group = Cgroup(tuple(dict.fromkeys(os.path.join(folder, name) for folder in self.folders.values())))
        if self.version == 2:
            _enable(self.folders["memory"])
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
                    if os.path.exists(f"{folder}/{file}")  # missing without swap, or before Linux 4.19
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
                match = _GROUP_NAME.fullmatch(name)
                if match and not os.path.exists(f"{PROC}/{match[1]}"):
                    Cgroup((os.path.join(folder, name),)).remove()


class Cgroup(msgspec.Struct, frozen=True):
    """The control group of one plugin: one directory (v2), or one for each controller (v1)."""

    folders: tuple[str, ...]

    @property
    def procs_files(self) -> tuple[str, ...]:
        """The cgroup.procs files. A process that writes 0 to them joins the group, with all its future
        children."""
        return tuple(f"{folder}/cgroup.procs" for folder in self.folders)

    @property
    def kills(self) -> int:
        """How many of its processes the kernel's out-of-memory killer has killed."""
        for file in ("memory.events", "memory.oom_control"):
            for folder in self.folders:
                if found := re.search(r"^oom_kill (\d+)$", _read(f"{folder}/{file}"), re.MULTILINE):
                    return int(found[1])
        return 0

    def remove(self) -> bool:
        """Remove the group, and return whether it is gone: not while a process runs in it. A later host
        removes what is left."""
        for folder in self.folders:
            try:
                os.rmdir(folder)
            except OSError:
                pass
        return not any(map(os.path.exists, self.folders))


def find(named: str | None = None, mounts: str = "/sys/fs/cgroup") -> CgroupParent | None:
    """Find the parent group: the one that the operator named, or a delegated one; None when there is neither.

    `named` is a group's path below the mount, such as /plughost. InvalidSpec when it is not usable. This
    changes nothing: controllers are enabled when the first group is created.
    """
    for base in (mounts, os.path.join(mounts, "unified")):
        for group in (named,) if named else _delegated(base):
            folder = base + group
            available = set(_read(f"{folder}/cgroup.controllers").split())
            if available >= set(_CONTROLLERS) and _is_ours(folder):
                return CgroupParent(2, dict.fromkeys(_CONTROLLERS, folder))
    if named is None:
        return None  # v1 groups are never delegated: a writable one may be anybody's
    folders = {name: os.path.join(mounts, name) + named for name in _CONTROLLERS}
    if all(os.access(folder, os.W_OK) for folder in folders.values()):
        return CgroupParent(1, folders)
    expected = " and ".join(_expected_paths(named, mounts))
    raise InvalidSpec(
        f"plugins cannot be put into the control group {named!r}: {expected} "
        "must exist, be writable for this user, and have the controllers memory and pids"
    )


def _expected_paths(named: str, mounts: str) -> list[str]:
    """Where a group of that name would be, by where the controllers are."""
    for base in (mounts, os.path.join(mounts, "unified")):
        if set(_read(f"{base}/cgroup.controllers").split()) >= set(_CONTROLLERS):
            return [base + named]
    return [os.path.join(mounts, name) + named for name in _CONTROLLERS]


def _delegated(base: str) -> list[str]:
    """This process's own group or its parent, if systemd has marked it as delegated."""
    own = _own_group()
    return [group for group in dict.fromkeys((own, os.path.dirname(own))) if _is_marked(base + group)]


def _is_marked(folder: str) -> bool:
    for mark in _DELEGATED:
        try:
            if os.getxattr(folder, mark) == b"1":
                return True
        except OSError:
            continue
    return False


def _is_ours(folder: str) -> bool:
    return all(os.access(f"{folder}/{name}", os.W_OK) for name in ("", "cgroup.procs", _ENABLED))


def _enable(folder: str) -> None:
    """Enable the controllers for the groups below."""
    if not set(_read(f"{folder}/{_ENABLED}").split()) >= set(_CONTROLLERS):
        if _is_marked(folder):
            _move_processes(folder)
        _write(f"{folder}/{_ENABLED}", " ".join(f"+{name}" for name in _CONTROLLERS))


def _move_processes(folder: str) -> None:
    """Move every process in the group itself (this one, and those beside it) into a group below."""
    leaf = f"{folder}/{HOSTS}"
    for _ in range(_MOVE_ATTEMPTS):  # a process that forks meanwhile leaves a child behind
        if not (found := _read(f"{folder}/cgroup.procs").split()):
            return
        os.makedirs(leaf, exist_ok=True)
        for pid in found:
            try:
                _write(f"{leaf}/cgroup.procs", pid)
            except ProcessLookupError:
                continue
    raise OSError(errno.EBUSY, "processes in it that cannot be moved", folder)


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
