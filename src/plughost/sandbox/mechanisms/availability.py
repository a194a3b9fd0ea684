"""The sandbox mechanisms of this machine, each with the cause and the remedy where it is unavailable
(`plughost doctor`)."""

from __future__ import annotations

import os
from collections.abc import Iterator

import msgspec

from plughost.engine.launcher.launch import NATIVE
from plughost.errors import InvalidSpec, SandboxUnavailable
from plughost.permissions.access import NONE
from plughost.sandbox.mechanisms.features import KernelFeatures
from plughost.sandbox.memory import cgroups
from plughost.sandbox.planner import check
from plughost.sandbox.users import UIDS, is_mapped

LANDLOCK = {
    1: "files",
    3: "truncating",
    4: "TCP ports",
    5: "devices",
    6: "signals and abstract sockets",
}
"""What Landlock restricts, by the first ABI that does."""


class Mechanism(msgspec.Struct, frozen=True):
    """One mechanism: whether it is available, details, and a remedy."""

    name: str
    there: bool
    detail: str
    remedy: str = ""


class MechanismReport(msgspec.Struct, frozen=True):
    """Facts beside the kernel's features."""

    compiled: bool
    """Whether the compiled launcher is there."""
    users: bool
    """Whether the users that plugins of a root host run as exist here."""
    parent: cgroups.CgroupParent | str | None
    """The parent of control groups; or, as text, why the one that the operator named cannot be used."""


def check_surroundings(named: str | None) -> MechanismReport:
    """Collect these facts on this machine; `named` is the control group that the operator named."""
    try:
        parent: cgroups.CgroupParent | str | None = cgroups.find(named)
    except InvalidSpec as error:
        parent = error.message
    return MechanismReport(os.access(NATIVE, os.X_OK), is_mapped(UIDS[-1]), parent)


def mechanisms(machine: KernelFeatures, around: MechanismReport) -> Iterator[Mechanism]:
    """All mechanisms that can be part of a sandbox."""
    if not machine.linux:
        yield Mechanism("sandbox", False, "plugins can be confined on Linux only")
        return
    yield Mechanism(
        "launcher",
        around.compiled,
        "compiled" if around.compiled else "Python: slower starts, and no connections to granted endpoints",
        "" if around.compiled else _COMPILER,
    )
    yield Mechanism(
        "inner",
        machine.inner is not None,
        "compiled" if machine.inner else f"missing ({_NOT_BUILT}): plugins cannot be confined",
        "" if machine.inner else _COMPILER,
    )
    yield _bubblewrap(machine)
    yield _namespaces(machine)
    yield _landlock(machine)
    yield Mechanism(
        "seccomp",
        machine.seccomp,
        "filters of system calls" if machine.seccomp else "the kernel has none",
        "" if machine.seccomp else "a kernel with CONFIG_SECCOMP_FILTER",
    )
    yield Mechanism(
        "denials",
        machine.reports_denials,
        "files and programs that are not granted are "
        + ("reported by name" if machine.reports_denials else "refused, not reported"),
        "" if machine.reports_denials else _WATCHABLE,
    )
    yield _user(machine, around)
    yield _groups(around.parent)


def unavailable(confined: str, machine: KernelFeatures) -> tuple[str, str] | None:
    """Why a class is unavailable on this machine, and the remedy; None when nothing is known to be
    missing."""
    try:
        check(confined, machine, NONE)
    except SandboxUnavailable as error:
        return error.message, error.hint or ""
    return None


_WATCHABLE = (
    "Linux 5.5 or later, outside containers that intercept system calls (LXD), and "
    "kernel.yama.ptrace_scope at most 1"
)
_NOT_BUILT = "no C compiler or no static libc when plughost was built"
_COMPILER = (
    "install a C compiler and a static libc (apt install gcc libc6-dev, dnf install gcc glibc-static), "
    "then reinstall plughost (pip install --force-reinstall --no-cache-dir)"
)


def _bubblewrap(machine: KernelFeatures) -> Mechanism:
    if machine.bubblewrap is None:
        remedy = "apt install bubblewrap (or dnf, pacman, apk: the package has the same name)"
        return Mechanism("bubblewrap", False, "not installed", remedy)
    version = ".".join(map(str, machine.version)) or "of an unknown version"
    if machine.version < (0, 8):
        detail = f"{version}: nested user namespaces are refused by seccomp alone"
        return Mechanism("bubblewrap", True, detail, "0.8 or later")
    return Mechanism("bubblewrap", True, version)


def _namespaces(machine: KernelFeatures) -> Mechanism:
    if machine.bubblewrap is None:
        return Mechanism("namespaces", False, "not tested: bubblewrap creates them")
    if machine.namespaces:
        return Mechanism("namespaces", False, machine.namespaces, machine.remedy)
    counted = (
        ""
        if machine.separate_nproc
        else "; the process limit also counts the user's other processes (before Linux 5.14)"
    )
    return Mechanism("namespaces", True, f"user, mount, PID, network, IPC{counted}")


def _landlock(machine: KernelFeatures) -> Mechanism:
    if not machine.landlock:
        remedy = "Linux 5.13 or later, with landlock among the modules of the boot parameter lsm="
        return Mechanism("Landlock", False, "the kernel has none, or it is switched off", remedy)
    holds = [what for abi, what in LANDLOCK.items() if abi <= machine.landlock]
    lacks = [what for abi, what in LANDLOCK.items() if abi > machine.landlock]
    missing = f"; not {', '.join(lacks)}" if lacks else ""
    return Mechanism("Landlock", True, f"ABI {machine.landlock}: {', '.join(holds)}{missing}")


def _user(machine: KernelFeatures, around: MechanismReport) -> Mechanism:
    if machine.uid != 0:
        return Mechanism("user", True, f"plugins run as the host's own user, {machine.uid}")
    if around.users:
        return Mechanism(
            "user", True, f"root: each plugin gets a uid of its own, from {UIDS[0]} to {UIDS[-1]}"
        )
    remedy = f"map the uids {UIDS[0]} to {UIDS[-1]} into this container, or run the host as another user"
    return Mechanism("user", False, "root, but there is no unprivileged user for plugins", remedy)


def _groups(parent: cgroups.CgroupParent | str | None) -> Mechanism:
    if isinstance(parent, str):
        return Mechanism("control groups", False, parent, "correct PLUGHOST_CGROUP, or unset it")
    if parent is None:
        return Mechanism(
            "control groups",
            False,
            "none: the host measures memory a few times per second",
            "delegate a v2 group (systemd-run --user -p Delegate=yes), or name one in PLUGHOST_CGROUP",
        )
    where = parent.folders["memory"]
    return Mechanism("control groups", True, f"v{parent.version}, {where}: memory and processes together")
