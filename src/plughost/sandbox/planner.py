"""Builds the sandbox plan: a pure decision over values, without I/O.

Classes: `strict` is a user of its own (where the host is root), bubblewrap with every namespace, Landlock,
seccomp and resource limits. `landlock` is the same without namespaces, for machines that do not allow them.
`none` is no sandbox. A class that is unavailable on this machine is refused: nothing runs with less than was
asked for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from plughost.engine.launcher.launch import Launch
from plughost.errors import InvalidSpec, SandboxUnavailable
from plughost.permissions.access import Access, Endpoint, ResourceLimits
from plughost.sandbox.denials.visible_access import VisibleAccess
from plughost.sandbox.enforcement import SIGNALS, describe_enforcement
from plughost.sandbox.inputs import EgressInputs, SandboxInputs
from plughost.sandbox.mechanisms import bubblewrap, inner
from plughost.sandbox.mechanisms.features import KernelFeatures
from plughost.sandbox.plan import CLASSES, SandboxPlan, VisiblePath, unconfined
from plughost.sandbox.resolve.trusted_files import is_beneath
from plughost.sandbox.users import User

HELPER_PROCESSES = 5
"""Processes in a sandbox that are the host's: bubblewrap's, the watcher, the forwarder, and a reserve of one
for a process that is about to exit."""

NO_CORE = 1
"""RLIMIT_CORE in bytes. Smaller than any core dump, so no file is written; and unlike 0 it also keeps the
kernel from starting the program that `core_pattern` pipes cores to."""

ZERO = "/dev/zero"
DEVICES = ("/dev/null", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty", "/dev/pts", "/dev/shm")
"""All of a sandbox's /dev but /dev/zero: a shared mapping of /dev/zero is memory that need not stay mapped,
and only a control group counts that."""

TRUNCATING = 3
"""The first Landlock ABI that restricts truncating a file by its name."""


def build_plan(
    confined: str,
    command: Sequence[str],
    cwd: str | None,
    env: Mapping[str, str],
    access: Access,
    limits: ResourceLimits,
    machine: KernelFeatures,
    inputs: SandboxInputs | None = None,
) -> SandboxPlan:
    """Build the plan of one plugin; SandboxUnavailable when it cannot be confined like this. `inputs` is
    needed for every class but `none`."""
    check(confined, machine, access)
    if confined == "none":
        return unconfined(Launch(tuple(command), env, cwd), access)
    assert inputs is not None
    if machine.uid == 0 and inputs.user is None:
        raise SandboxUnavailable("the host runs as root, but the plugin has no user of its own")
    runnable = inputs.runnable
    for own in (*runnable.code, *runnable.executes, *runnable.reads, *runnable.libraries):
        if any(is_beneath(own, folder) for folder in inputs.granted.write):
            raise SandboxUnavailable(
                f"a grant would let it write to its own program or code in {own}",
                hint="grant a writable folder that contains neither its code nor its interpreter",
            )
    rlimits = rlimits_for(confined, limits, machine, inputs.user)
    grouped = inputs.group is not None
    uncounted = limits.memory is not None and not grouped
    if confined == "strict":
        if access.connect and inputs.egress is None:
            raise SandboxUnavailable("it is granted endpoints, but the proxy to reach them is missing")
        launch, visible_paths, rules = _strict(cwd, env, limits, rlimits, machine, inputs, uncounted)
    else:
        launch, visible_paths, rules = _landlock(cwd, env, rlimits, machine, inputs, uncounted)
    if inputs.group is not None:
        launch = msgspec.structs.replace(launch, groups=inputs.group.procs_files)
    enforced = describe_enforcement(
        confined, access, limits, rlimits, machine, inputs.user, grouped, inputs.writable_tmp
    )
    metered_memory = None if grouped else limits.memory
    starts_in = cwd or ("/tmp" if confined == "strict" else "$TMPDIR")
    visible_access = _visible_access(rules, inputs, access.connect if confined == "strict" else None)
    return SandboxPlan(
        confined, launch, tuple(enforced), access, visible_paths, starts_in, metered_memory,
        inputs.protected_paths, visible_access, inputs.writable_tmp,
    )  # fmt: skip


def _visible_access(
    rules: inner.InnerRules, inputs: SandboxInputs, connect: tuple[Endpoint, ...] | None
) -> VisibleAccess:
    def real(paths: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(path for path in paths if path not in rules.made)

    return VisibleAccess(
        read=real(rules.read),
        write=real(rules.write),
        execute=rules.execute,
        list=inputs.listable,
        programs=(*inputs.runnable.code, *inputs.runnable.executes),
        built=inputs.protected_paths.code,
        private=inputs.private,
        connect=connect,
    )


def check(confined: str, machine: KernelFeatures, access: Access) -> None:
    """Raises SandboxUnavailable when this machine lacks what the class needs for this access."""
    if confined not in CLASSES:
        raise InvalidSpec(f"unknown class {confined!r}; known: {', '.join(CLASSES)}")
    if confined == "none":
        return
    if not machine.linux:
        raise SandboxUnavailable(
            "plugins can be confined on Linux only",
            hint="run the host on Linux",
        )
    if machine.inner is None:
        raise SandboxUnavailable(
            "plughost-inner is missing: plughost was built without a C compiler or a static libc",
            hint="install both (apt install gcc libc6-dev, dnf install gcc glibc-static), then reinstall "
            "plughost",
        )
    if not machine.landlock:
        raise SandboxUnavailable(
            "the kernel has no Landlock, or it is switched off",
            hint="use Linux 5.13 or later, with landlock among the modules of the boot parameter lsm=",
        )
    if not machine.seccomp:
        raise SandboxUnavailable(
            "the kernel has no seccomp filters", hint="use a kernel with CONFIG_SECCOMP_FILTER"
        )
    if confined == "strict":
        if machine.bubblewrap is None:
            raise SandboxUnavailable(
                "bubblewrap is not installed",
                hint="apt install bubblewrap (or dnf, pacman, apk: the package has the same name)",
            )
        if machine.namespaces:
            raise SandboxUnavailable(
                f"bubblewrap cannot make a sandbox here: {machine.namespaces}", hint=machine.remedy
            )
        return
    if machine.uid != 0 and machine.landlock < TRUNCATING:
        raise SandboxUnavailable(
            f"Landlock {machine.landlock} cannot stop a plugin from truncating the files of its user",
            hint="use Linux 6.2 or later, use class strict, or run the host as root, so that each plugin "
            "gets a user of its own",
        )
    if access.connect:
        raise SandboxUnavailable(
            "class landlock cannot restrict a plugin to certain hosts: it has no private network",
            hint="use class strict, or remove its endpoints",
        )


def _strict(
    cwd: str | None,
    env: Mapping[str, str],
    limits: ResourceLimits,
    rlimits: Mapping[str, int],
    machine: KernelFeatures,
    inputs: SandboxInputs,
    uncounted: bool,
) -> tuple[Launch, tuple[VisiblePath, ...], inner.InnerRules]:
    assert machine.bubblewrap is not None
    runnable, granted, egress = inputs.runnable, inputs.granted, inputs.egress
    env = {**env, **(egress.env if egress is not None else {})}
    remapped = [(inputs.etc, "/etc"), (inputs.inner, bubblewrap.INNER)]
    view = bubblewrap.MountView(
        read=(
            *runnable.code, *runnable.reads, *runnable.executes, *runnable.library_mounts, *granted.read,
            *inputs.shared,
        ),
        write=granted.write,
        remapped=tuple(remapped),
        links=(*runnable.links, *granted.links),
        scratch=limits.scratch,
        shared=None if limits.scratch is None else max(limits.scratch // 4, 1 << 20),
        writable_tmp=inputs.writable_tmp,
        listable=inputs.listable,
        cwd=cwd or "/tmp",
        networked=egress is not None,
    )  # fmt: skip
    rules = inner.InnerRules(
        execute=(*runnable.code, *runnable.executes),
        list=inputs.listable if inputs.writable_tmp else (*inputs.listable, "/tmp"),
        write=(
            *(("/tmp",) if inputs.writable_tmp else ()),
            *(DEVICES if uncounted else ("/dev",)),
            *granted.write,
        ),
        read=("/etc", "/proc", *runnable.reads, *runnable.libraries, *granted.read, *inputs.shared),
        connect=_ports(egress),
        identities=inputs.identities,
        made=("/etc", "/tmp"),
    )
    inner_argv = inner.build_inner_argv(rules, rlimits, uncounted=uncounted, lockless=not inputs.file_locks)
    bubblewrap_argv = bubblewrap.build_argv(view, machine.bubblewrap, machine.version, env)
    launch = Launch(
        (*bubblewrap_argv, bubblewrap.INNER, *inner_argv, "--", runnable.path, *runnable.argv),
        {name: value for name, value in env.items() if name not in bubblewrap.loader_variables(env)},
        confine="keep" if inputs.user is None else str(inputs.user),
        egress=(egress.socket, egress.listing) if egress is not None else None,
    )
    visible_paths = tuple(
        VisiblePath(inside, writable=how == "--bind", made=outside != inside)
        for inside, (how, outside) in bubblewrap.mounts(view).items()
        if inside != bubblewrap.INNER
    )
    return launch, visible_paths, rules


def _landlock(
    cwd: str | None,
    env: Mapping[str, str],
    rlimits: Mapping[str, int],
    machine: KernelFeatures,
    inputs: SandboxInputs,
    uncounted: bool,
) -> tuple[Launch, tuple[VisiblePath, ...], inner.InnerRules]:
    runnable, granted = inputs.runnable, inputs.granted
    system = (path for path in inputs.system if not uncounted or path != ZERO)
    if loader_variables := sorted(bubblewrap.loader_variables(env)):
        raise SandboxUnavailable(
            f"{', '.join(loader_variables)} cannot be set in class landlock: the sandbox helper would "
            "load it too",
            hint="use class strict",
        )
    rules = inner.InnerRules(
        execute=(*runnable.code, *runnable.executes),
        list=inputs.listable if inputs.writable_tmp else (*inputs.listable, inputs.scratch),
        write=("/dev/null", *((inputs.scratch,) if inputs.writable_tmp else ()), *granted.write),
        read=(*system, *runnable.reads, *runnable.libraries, *granted.read, *inputs.shared),
        identities=inputs.identities,
    )
    inner_argv = inner.build_inner_argv(
        rules,
        rlimits,
        cwd=cwd or inputs.scratch,
        offline=True,
        uncounted=uncounted,
        lockless=not inputs.file_locks,
    )
    launch = Launch(
        (inputs.inner, *inner_argv, "--", runnable.path, *runnable.argv),
        {**env, "TMPDIR": inputs.scratch} if inputs.writable_tmp else env,
        mode="auto" if inputs.user is not None or machine.landlock >= SIGNALS else "pidns",
        confine="keep" if inputs.user is None else str(inputs.user),
    )
    visible_paths = (
        *(VisiblePath(path) for path in sorted({*rules.read, *rules.execute})),
        *((VisiblePath("$TMPDIR", writable=True, made=True),) if inputs.writable_tmp else ()),
        *(VisiblePath(path, writable=True) for path in rules.write if path != inputs.scratch),
    )
    return launch, visible_paths, rules


def _ports(egress: EgressInputs | None) -> tuple[int, ...]:
    lines = egress.listing.splitlines() if egress is not None else ()
    return tuple(sorted({int(line.split(" ")[2]) for line in lines if line}))


def rlimits_for(
    confined: str, limits: ResourceLimits, machine: KernelFeatures, user: User | None
) -> dict[str, int]:
    """The resource limits (setrlimit) that are set for each process, by name."""
    wanted = {
        "core": NO_CORE,
        "nofile": limits.open_files,
        "fsize": limits.file_size,
        "data": limits.memory,
        "cpu": limits.cpu_seconds,
    }
    # If the kernel counted it together with the user's other processes, each could exhaust the other's limit.
    apart = user is not None or (confined == "strict" and machine.separate_nproc)
    if apart and limits.processes is not None:
        wanted["nproc"] = limits.processes + HELPER_PROCESSES
    return {
        name: min(value, machine.hard_limits.get(name, value))
        for name, value in wanted.items()
        if value is not None
    }
