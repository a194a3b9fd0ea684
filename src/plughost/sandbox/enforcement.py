"""Describes which mechanism enforces each grant and limit of a plugin, for people and for records."""

from __future__ import annotations

from collections.abc import Mapping

from plughost.permissions.access import Access, ResourceLimits
from plughost.sandbox.mechanisms.features import KernelFeatures
from plughost.sandbox.plan import Enforcement
from plughost.sandbox.users import User

SIGNALS = 6
"""The first Landlock ABI that restricts signals to processes outside the sandbox."""
_SUMMED = "checked by the host a few times per second (memfd and shared anonymous memory are denied)"
"""A memfd and shared anonymous memory need not be mapped by any process, and only a control group counts
memory that is not mapped."""


def describe_enforcement(
    confined: str,
    access: Access,
    limits: ResourceLimits,
    rlimits: Mapping[str, int],
    machine: KernelFeatures,
    user: User | None,
    grouped: bool,
    writable_tmp: bool = True,
) -> list[Enforcement]:
    """List what enforces each grant and limit of a plugin that is confined as `planner.py` decides.

    `rlimits` are the limits that are really set; `grouped` tells whether the plugin has a control group.
    """
    strict = confined == "strict"
    landlock = f"Landlock {machine.landlock or ''}".rstrip()
    files = f"mount namespace, {landlock}" if strict else landlock
    found = [
        Enforcement(
            "user", f"uid {user.uid}, its own" if user is not None else f"uid {machine.uid}, the host's"
        ),
        Enforcement("its code", f"read-only: {files}"),
        Enforcement("other files", f"invisible: {files}" if strict else f"inaccessible: {files}"),
        Enforcement(
            "processes of others", _process_isolation(strict, landlock, machine.landlock, user is not None)
        ),
        Enforcement("system calls", "seccomp"),
        Enforcement(
            "files and programs not granted",
            "reported in its log: seccomp notifications"
            if machine.reports_denials
            else "refused, not reported",
        ),
    ]
    found += [Enforcement(f"read {path}", files) for path in access.read]
    found += [Enforcement(f"write {path}", files) for path in access.write]
    found += [Enforcement(f"execute {path}", files) for path in access.execute]
    found += [Enforcement(f"connect {endpoint}", "network namespace, proxy") for endpoint in access.connect]
    found.append(Enforcement("other hosts", "network namespace" if strict else "seccomp: no sockets"))
    bounds = {
        "memory": (
            limits.memory,
            "data",
            f"{'control group' if grouped else _SUMMED}, for all processes together; RLIMIT_DATA, for "
            "each process",
        ),
        "processes": (
            limits.processes,
            "nproc",
            f"{'control group and RLIMIT_NPROC' if grouped else 'RLIMIT_NPROC'}, for all processes together",
        ),
        "open files": (limits.open_files, "nofile", "RLIMIT_NOFILE, for each process"),
        "file size": (limits.file_size, "fsize", "RLIMIT_FSIZE"),
        "processor seconds": (limits.cpu_seconds, "cpu", "RLIMIT_CPU, for each process"),
    }
    found += [
        Enforcement(
            f"{what} {value}",
            by if name in rlimits else "nothing: the limit would also count the host user's other processes",
        )
        for what, (value, name, by) in bounds.items()
        if value is not None
    ]
    if not writable_tmp:
        found.append(
            Enforcement(f"scratch {limits.scratch}", f"/tmp and /dev/shm cannot be written: {files}")
        )
    elif limits.scratch is not None:
        found.append(Enforcement(f"scratch {limits.scratch}", "tmpfs of that size" if strict else "nothing"))
    return found


def _process_isolation(strict: bool, landlock: str, abi: int, own_user: bool) -> str:
    if strict:
        return f"PID namespace, {landlock}"
    if abi < SIGNALS and not own_user:
        return f"the launcher's PID namespace, {landlock}"
    return f"the launcher's PID namespace where there is one, {landlock}"
