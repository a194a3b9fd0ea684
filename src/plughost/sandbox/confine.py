"""How a plugin is confined: a decision over values, and what holds it to each of its powers.

Classes: `strict` is a user of its own (where the host is root), bubblewrap with every namespace, Landlock,
seccomp and limits. `landlock` is the same without namespaces, for machines that allow none. `none` is none.
A class that cannot be had here is refused; nothing runs with less than was asked for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import msgspec

from plughost.base.errors import InvalidSpec, Unconfinable
from plughost.guard.powers import Limits, Powers
from plughost.runtime.launch import Launch
from plughost.sandbox import bubblewrap, inner
from plughost.sandbox.cgroups import Group
from plughost.sandbox.confinement import CLASSES, Confinement, unconfined
from plughost.sandbox.grants import Granted
from plughost.sandbox.holdings import holdings
from plughost.sandbox.machine import Machine
from plughost.sandbox.runnable import Runnable
from plughost.sandbox.trust import is_beneath
from plughost.sandbox.users import User

KEEPERS = 4
"""Processes in a sandbox that are ours: bubblewrap's, the forwarder, and room for one that is about to go."""

HOLDS_TRUNCATION, HOLDS_SIGNALS = 3, 6
"""From which ABI on Landlock does, which a plugin without namespaces depends on."""

SYSTEM = (
    "/etc/ld.so.cache", "/etc/localtime", "/etc/passwd", "/etc/group", "/etc/nsswitch.conf", "/etc/hosts",
    "/etc/ssl", "/etc/pki", "/dev/zero", "/dev/random", "/dev/urandom", "/proc",
)  # fmt: skip
"""What programs read of any system, where they are not given an /etc of their own."""


class WayOut(Protocol):
    """The proxy through which granted endpoints are reached, as one plugin is shown it."""

    socket: str
    """Its path outside."""
    listing: str
    """What the forwarder inside listens on: lines of `kind address port …`."""
    hosts: str
    """The plugin's /etc/hosts."""
    env: dict[str, str]


class Prepared(msgspec.Struct, frozen=True, kw_only=True):
    """What was found and made ready for one plugin outside."""

    runnable: Runnable
    granted: Granted = Granted()
    user: User | None = None
    """Who it becomes, where that is not the host's own user."""
    inner: str
    """`plughost-inner`, where the plugin's user can reach it."""
    etc: str = ""
    """Becomes its /etc."""
    scratch: str = ""
    """Its scratch folder, where it has no /tmp of its own."""
    shared: tuple[str, ...] = ()
    """Public folders that any program may want: time zones, locales, certificates."""
    way_out: WayOut | None = None
    group: Group | None = None
    """The control group that counts what all its processes use."""


def confine(
    confined: str,
    command: Sequence[str],
    cwd: str | None,
    env: Mapping[str, str],
    powers: Powers,
    limits: Limits,
    machine: Machine,
    prepared: Prepared | None = None,
) -> Confinement:
    """The decision. `prepared` is needed for every class but `none`."""
    check(confined, machine, powers)
    if confined == "none":
        return unconfined(Launch(tuple(command), env, cwd), powers)
    assert prepared is not None
    if machine.uid == 0 and prepared.user is None:
        raise Unconfinable("a plugin of a root host needs a user of its own")
    for own in prepared.runnable.code:
        if any(is_beneath(own, folder) for folder in prepared.granted.write):
            raise Unconfinable(
                f"its own code in {own} would be writable by what it is granted",
                hint="grant a folder to write that its code is not in",
            )
    rlimits = _rlimits(confined, limits, machine, prepared.user)
    if confined == "strict":
        if powers.connect and prepared.way_out is None:
            raise Unconfinable("it is granted endpoints, and has no way out to them")
        launch = _strict(cwd, env, limits, rlimits, machine, prepared)
    else:
        launch = _landlock(cwd, env, rlimits, prepared)
    grouped = prepared.group is not None
    if prepared.group is not None:
        launch = msgspec.structs.replace(launch, groups=prepared.group.doors)
    held = holdings(confined, powers, limits, rlimits, machine, prepared.user, grouped)
    return Confinement(confined, launch, tuple(held), powers, None if grouped else limits.memory)


def check(confined: str, machine: Machine, powers: Powers) -> None:
    """Unconfinable when this machine does not have what the class needs."""
    if confined not in CLASSES:
        raise InvalidSpec(f"unknown class {confined!r}; known: {', '.join(CLASSES)}")
    if confined == "none":
        return
    if not machine.linux:
        raise Unconfinable("plugins can be confined on Linux only", hint="class none runs it unconfined")
    if machine.inner is None:
        raise Unconfinable(
            "plughost-inner is missing: plughost was installed where there was no C compiler",
            hint="install a C compiler (apt install gcc libc6-dev) and plughost again",
        )
    if not machine.landlock:
        raise Unconfinable(
            "the kernel has no Landlock, or it is switched off",
            hint="Linux 5.13 or later, with landlock among the modules of the boot parameter lsm=",
        )
    if not machine.seccomp:
        raise Unconfinable("the kernel has no seccomp filters", hint="a kernel with CONFIG_SECCOMP_FILTER")
    if confined == "strict":
        if machine.bubblewrap is None:
            raise Unconfinable(
                "bubblewrap is not installed",
                hint="apt install bubblewrap (or dnf, pacman, apk: the package has the same name)",
            )
        if machine.namespaces:
            raise Unconfinable(
                f"bubblewrap cannot make a sandbox here: {machine.namespaces}", hint=machine.remedy
            )
        return
    if powers.connect:
        raise Unconfinable(
            "without a network of its own a plugin cannot be held to certain hosts",
            hint="class strict can; or take its endpoints back",
        )
    needed = HOLDS_TRUNCATION if machine.uid == 0 else HOLDS_SIGNALS
    if machine.landlock < needed:
        held = "truncation" if machine.uid == 0 else "signals to the user's other processes"
        raise Unconfinable(
            f"Landlock {machine.landlock} of this kernel does not hold {held}: alone it needs {needed}",
            hint="Linux 6.2 or later for a host that is root, 6.12 for any other; or class strict",
        )


def _strict(
    cwd: str | None,
    env: Mapping[str, str],
    limits: Limits,
    rlimits: Mapping[str, int],
    machine: Machine,
    prepared: Prepared,
) -> Launch:
    assert machine.bubblewrap is not None
    runnable, granted, way_out = prepared.runnable, prepared.granted, prepared.way_out
    env = {**env, **(way_out.env if way_out is not None else {})}
    placed = [(prepared.etc, "/etc"), (prepared.inner, bubblewrap.INNER)]
    view = bubblewrap.View(
        read=(
            *runnable.code, *runnable.reads, *runnable.executes, *runnable.shelves, *granted.read,
            *prepared.shared,
        ),
        write=granted.write,
        placed=tuple(placed),
        links=(*runnable.links, *granted.links),
        scratch=limits.scratch,
        shared=None if limits.scratch is None else max(limits.scratch // 4, 1 << 20),
        cwd=cwd or "/tmp",
        networked=way_out is not None,
    )  # fmt: skip
    rules = inner.Rules(
        execute=(*runnable.code, *runnable.executes),
        write=("/tmp", "/dev", *granted.write),
        read=("/etc", "/proc", *runnable.reads, *runnable.libraries, *granted.read, *prepared.shared),
        connect=_ports(way_out),
    )
    last = inner.words(rules, rlimits)
    outside = bubblewrap.words(view, machine.bubblewrap, machine.version, env)
    return Launch(
        (*outside, bubblewrap.INNER, *last, "--", runnable.path, *runnable.argv),
        {name: value for name, value in env.items() if name not in bubblewrap.obeyed(env)},
        confine="keep" if prepared.user is None else str(prepared.user),
        way_out=(way_out.socket, way_out.listing) if way_out is not None else None,
    )


def _landlock(
    cwd: str | None, env: Mapping[str, str], rlimits: Mapping[str, int], prepared: Prepared
) -> Launch:
    runnable, granted = prepared.runnable, prepared.granted
    if obeyed := sorted(bubblewrap.obeyed(env)):
        raise Unconfinable(
            f"{', '.join(obeyed)} would be obeyed by what is to confine it",
            hint="class strict sets it inside",
        )
    rules = inner.Rules(
        execute=(*runnable.code, *runnable.executes),
        write=(prepared.scratch, "/dev/null", *granted.write),
        read=(*SYSTEM, *runnable.reads, *runnable.libraries, *granted.read, *prepared.shared),
    )
    last = inner.words(
        rules,
        rlimits,
        cwd=cwd or prepared.scratch,
        seccomp="offline",
    )
    return Launch(
        (prepared.inner, *last, "--", runnable.path, *runnable.argv),
        {**env, "TMPDIR": prepared.scratch},
        confine="keep" if prepared.user is None else str(prepared.user),
    )


def _ports(way_out: WayOut | None) -> tuple[int, ...]:
    lines = way_out.listing.splitlines() if way_out is not None else ()
    return tuple(sorted({int(line.split(" ")[2]) for line in lines if line}))


def _rlimits(confined: str, limits: Limits, machine: Machine, user: User | None) -> dict[str, int]:
    wanted = {
        "core": 0,
        "nofile": limits.open_files,
        "fsize": limits.file_size,
        "data": limits.memory,
        "cpu": limits.cpu_seconds,
    }
    # Counted together with the user's other processes, the limit would hit those, or be hit by them.
    apart = user is not None or (confined == "strict" and machine.counts_apart)
    if apart and limits.processes is not None:
        wanted["nproc"] = limits.processes + KEEPERS
    return {
        name: min(value, machine.ceilings.get(name, value))
        for name, value in wanted.items()
        if value is not None
    }
