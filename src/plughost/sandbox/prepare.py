"""Prepares a sandbox from a plugin's spec: resolves its command and grants, sets up its directory, and builds
the plan."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping

from plughost.errors import LaunchFailed, SandboxUnavailable
from plughost.permissions.access import Access, ResourceLimits
from plughost.sandbox.file_identity import file_identity
from plughost.sandbox.host_dirs import bases, check_private
from plughost.sandbox.inputs import EgressInputs, SandboxInputs
from plughost.sandbox.mechanisms import features
from plughost.sandbox.memory.cgroups import Cgroup
from plughost.sandbox.plan import SandboxPlan
from plughost.sandbox.planner import build_plan, check
from plughost.sandbox.protected_paths import ProtectedPaths
from plughost.sandbox.resolve import command_cache, shared_libraries, trusted_files
from plughost.sandbox.resolve.elf import open_file
from plughost.sandbox.resolve.grants import ResolvedGrants, resolve_grants
from plughost.sandbox.run_dir import PluginDir, RunDir
from plughost.sandbox.users import User, barrier, check_reach
from plughost.spec import PluginSpec

CERTIFICATES = ("/etc/ssl", "/etc/pki", "/etc/ca-certificates", "/usr/share/ca-certificates")
ZONES = "/usr/share/zoneinfo"
LOCALES = "/usr/lib/locale"
LARGEST_ZONE = 64 << 10

SYSTEM = (
    "/etc/ld.so.cache", "/etc/localtime", "/etc/passwd", "/etc/group", "/etc/nsswitch.conf", "/etc/hosts",
    "/etc/ssl", "/etc/pki", "/dev/zero", "/dev/random", "/dev/urandom", "/proc",
)  # fmt: skip
"""Files that programs read on any system, for a class that does not give the plugin its own /etc."""

_BUILT_IN = ("", "C", "POSIX", "C.UTF-8", "C.utf8")


def prepare_sandbox(
    spec: PluginSpec,
    binding_env: Mapping[str, str],
    powers: Access,
    limits: ResourceLimits,
    class_: str,
    quarters: RunDir,
    *,
    way_out: EgressInputs | None = None,
    group: Cgroup | None = None,
    to_come: str | None = None,
    listable: tuple[str, ...] = (),
    resolved: Mapping[str, str] | None = None,
    writable_tmp: bool = True,
    file_locks: bool = True,
    here: features.KernelFeatures | None = None,
) -> SandboxPlan:
    """Plan how to run the plugin; LaunchFailed, mostly SandboxUnavailable, when it cannot be run like that.

    It reads files and may start a probe, so it is to be called in a thread. `egress` is needed when
    `powers.connect` names an endpoint; it was created in the plugin's directory
    (`run_dir.plugin_dir(spec.name)`) for that directory's user, and lives as long as the plugin. `future_dir`
    is a directory that is granted and will be created later. `listable`, `resolved`, `writable_tmp` and
    `file_locks` come from the contract (`ResolvedSpec`).
    """
    here = here or features.kernel_features()
    command, cwd = tuple(spec.command), None if spec.cwd is None else os.path.abspath(spec.cwd)
    try:
        check(class_, here, powers)
        if class_ == "none":
            return build_plan(class_, command, cwd, binding_env, powers, limits, here)
        assert here.inner is not None
        known = dict(resolved or {})
        told = _told_folder(command, cwd) if spec.command_is_told else ()
        known.update((folder, folder) for folder in told)
        parted = tuple(_still_real(path) for path in listable)
        given = resolve_grants(powers, spec.allow, to_come, known)
        found = command_cache.resolve_command(
            command,
            cwd,
            binding_env,
            execute=powers.execute,
            read=(*given.read, *given.write),
            cwd_is_own=spec.cwd_is_own,
            command_is_told=spec.command_is_told,
            path_is_told=_path_is_told(spec, binding_env),
            kept_from=spec.kept_from,
            parted=parted,
            resolved=known,
        )
        given_away = (*found.code, *found.reads, *found.executes, *given.read, *given.write)
        private = bases(quarters.base)
        check_private(given_away, private)
        footing = _footing(found, given, told)
        if cwd is not None and not spec.cwd_is_own:
            cwd = _seen_inside(cwd, found, given)
        room = quarters.room(spec.name)
        inner = here.inner
        if room.user is not None:
            _check_reach(found, given, room.user, to_come)
            if barrier(inner, room.user, os.R_OK | os.X_OK) is not None:
                inner = quarters.reachable(inner)
        shared = tuple(_shared(binding_env, way_out))
        prepared = SandboxInputs(
            runnable=found,
            granted=given,
            user=room.user,
            inner=inner,
            etc=_furnished(room, here, found, given, shared, way_out),
            scratch=room.scratch() if class_ == "landlock" else "",
            shared=shared,
            system=tuple(os.path.realpath(path) for path in SYSTEM) if class_ == "landlock" else (),
            same=_same(path for path in (*given_away, *found.libraries) if path != to_come),
            footing=footing,
            private=private,
            listable=parted,
            writable_tmp=writable_tmp,
            file_locks=file_locks,
            way_out=way_out,
            group=group,
        )
        return build_plan(class_, command, cwd, binding_env, powers, limits, here, prepared)
    except LaunchFailed as error:
        error.plugin = spec.name
        raise


def _path_is_told(spec: PluginSpec, env: Mapping[str, str]) -> bool:
    """Whether PATH is neither the host's own nor the operator's."""
    by_operator = None if spec.command_is_told else spec.env.get("PATH")
    return env.get("PATH") not in (None, by_operator, os.environ.get("PATH"))


def _told_folder(command: tuple[str, ...], cwd: str | None) -> tuple[str, ...]:
    """The directory with the manifest that the command comes from, as its contract has resolved it."""
    if cwd is not None:
        return (cwd,)
    return (os.path.dirname(command[0]),) if os.path.isabs(command[0]) else ()


def _still_real(path: str) -> str:
    """Check a real path that its contract has resolved; SandboxUnavailable when a symlink is in it by now."""
    file_identity(path)
    return path


def _footing(
    found: command_cache.ResolvedCommand, given: ResolvedGrants, folders: tuple[str, ...]
) -> ProtectedPaths:
    """The paths that this sandbox is built from; SandboxUnavailable when the plugin could write one itself,
    and so change what its next process is given."""
    links = (link for link, _ in (*found.links, *given.links))
    code = (*found.code, *found.reads, *found.executes, *found.libraries, *links)
    identities = tuple((folder, file_identity(folder)) for folder in folders)
    footing = ProtectedPaths(given.write, given.read, tuple(dict.fromkeys(code)), identities)
    if (shaken := footing.writable_by(footing)) is not None:
        raise SandboxUnavailable(
            f"{shaken[0]} would be writable by what it is granted: it is in {shaken[1]}",
            hint="grant a folder to write that neither its programs nor symlinks of other grants are in",
        )
    return footing


def _same(paths: Iterable[str]) -> tuple[tuple[str, str], ...]:
    """Identities of all paths but those that only root can replace: upgrades of the system do that."""
    return tuple(
        (path, file_identity(path)) for path in dict.fromkeys(paths) if not trusted_files.is_public(path)
    )


def _seen_inside(cwd: str, found: command_cache.ResolvedCommand, given: ResolvedGrants) -> str | None:
    """The working directory, if it exists inside: something in it is visible, or it is in a visible
    directory. Else None."""
    real = os.path.realpath(cwd)
    inside = (*found.code, *found.executes, *found.reads, *given.read, *given.write)
    seen = any(
        trusted_files.is_beneath(path, real) or trusted_files.is_beneath(real, path) for path in inside
    )
    return real if seen else None


def _check_reach(
    found: command_cache.ResolvedCommand, given: ResolvedGrants, user: User, to_come: str | None
) -> None:
    check_reach((*found.executes, *found.libraries, *found.reads, *found.code, *given.read), user)
    check_reach([path for path in given.write if path != to_come], user, os.R_OK | os.W_OK)


def _shared(env: Mapping[str, str], way_out: EgressInputs | None) -> Iterator[str]:
    """The shared public directories that this plugin may need. Each costs a mount, so there are no others."""
    wanted = [ZONES]
    if any(env.get(name, "") not in _BUILT_IN for name in ("LANG", "LC_ALL", "LC_CTYPE")):
        wanted.append(LOCALES)
    if way_out is not None:
        wanted += CERTIFICATES
    return (path for path in wanted if trusted_files.is_public(path))


def _furnished(
    room: PluginDir,
    here: features.KernelFeatures,
    found: command_cache.ResolvedCommand,
    given: ResolvedGrants,
    shared: tuple[str, ...],
    way_out: EgressInputs | None,
) -> str:
    """Write the plugin's /etc: nothing of the machine's but what programs cannot do without."""
    uid, gid = room.user or (here.uid, os.getegid())
    files = {
        "passwd": f"root:x:0:0::/:/\nplugin:x:{uid}:{gid}::/tmp:/\n".encode(),
        "group": f"root:x:0:\nplugin:x:{gid}:\n".encode(),
        # There is no name server inside, but a query to one is a denial that the watcher can report; reading
        # a file alone would not be.
        "nsswitch.conf": b"passwd: files\ngroup: files\nhosts: files dns\n",
        "hosts": (way_out.hosts if way_out is not None else "127.0.0.1 localhost\n").encode(),
        "ld.so.cache": shared_libraries.cache_bytes(),
        "localtime": _zone(),
    }
    inside = (*found.code, *found.reads, *found.executes, *given.read, *given.write, *shared)
    return room.write_etc(
        {name: content for name, content in files.items() if content},
        [path for path in inside if path.startswith("/etc/")],
        [link for link in (*found.links, *given.links) if link[0].startswith("/etc/")],
    )


def _zone() -> bytes:
    fd = open_file("/etc/localtime")
    if fd is None:
        return b""
    try:
        return os.pread(fd, LARGEST_ZONE, 0)
    finally:
        os.close(fd)
