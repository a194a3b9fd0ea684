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
from plughost.sandbox.users import User, barrier, check_reachable
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
    access: Access,
    limits: ResourceLimits,
    class_: str,
    run_dir: RunDir,
    *,
    egress: EgressInputs | None = None,
    group: Cgroup | None = None,
    future_dir: str | None = None,
    listable: tuple[str, ...] = (),
    resolved: Mapping[str, str] | None = None,
    writable_tmp: bool = True,
    file_locks: bool = True,
    machine: features.KernelFeatures | None = None,
) -> SandboxPlan:
    """Plan how to run the plugin; LaunchFailed, mostly SandboxUnavailable, when it cannot be run like that.

    It reads files and may start a probe, so it is to be called in a thread. `egress` is needed when
    `access.connect` names an endpoint; it was created in the plugin's directory
    (`run_dir.plugin_dir(spec.name)`) for that directory's user, and lives as long as the plugin. `future_dir`
    is a directory that is granted and will be created later. `listable`, `resolved`, `writable_tmp` and
    `file_locks` come from the contract (`ResolvedSpec`).
    """
    machine = machine or features.kernel_features()
    command, cwd = tuple(spec.command), None if spec.cwd is None else os.path.abspath(spec.cwd)
    try:
        check(class_, machine, access)
        if class_ == "none":
            return build_plan(class_, command, cwd, binding_env, access, limits, machine)
        assert machine.inner is not None
        known = dict(resolved or {})
        manifest_dirs = _manifest_dirs(command, cwd) if spec.command_from_manifest else ()
        known.update((folder, folder) for folder in manifest_dirs)
        partial_dirs = tuple(_check_real(path) for path in listable)
        grants = resolve_grants(access, spec.allow, future_dir, known)
        found = command_cache.resolve_command(
            command,
            cwd,
            binding_env,
            execute=access.execute,
            read=(*grants.read, *grants.write),
            cwd_is_plugin_dir=spec.cwd_is_plugin_dir,
            command_from_manifest=spec.command_from_manifest,
            path_from_plugin=_path_from_plugin(spec, binding_env),
            excluded_file=spec.excluded_file,
            partial_dirs=partial_dirs,
            resolved=known,
        )
        exposed = (*found.code, *found.reads, *found.executes, *grants.read, *grants.write)
        private = bases(run_dir.base)
        check_private(exposed, private)
        protected = _protected_paths(found, grants, manifest_dirs)
        if cwd is not None and not spec.cwd_is_plugin_dir:
            cwd = _seen_inside(cwd, found, grants)
        plugin_dir = run_dir.plugin_dir(spec.name)
        inner = machine.inner
        if plugin_dir.user is not None:
            _check_reachable(found, grants, plugin_dir.user, future_dir)
            if barrier(inner, plugin_dir.user, os.R_OK | os.X_OK) is not None:
                inner = run_dir.reachable(inner)
        shared = tuple(_shared_dirs(binding_env, egress))
        inputs = SandboxInputs(
            runnable=found,
            granted=grants,
            user=plugin_dir.user,
            inner=inner,
            etc=_write_etc(plugin_dir, machine, found, grants, shared, egress),
            scratch=plugin_dir.scratch() if class_ == "landlock" else "",
            shared=shared,
            system=tuple(os.path.realpath(path) for path in SYSTEM) if class_ == "landlock" else (),
            identities=_identities(path for path in (*exposed, *found.libraries) if path != future_dir),
            protected_paths=protected,
            private=private,
            listable=partial_dirs,
            writable_tmp=writable_tmp,
            file_locks=file_locks,
            egress=egress,
            group=group,
        )
        return build_plan(class_, command, cwd, binding_env, access, limits, machine, inputs)
    except LaunchFailed as error:
        error.plugin = spec.name
        raise


def _path_from_plugin(spec: PluginSpec, env: Mapping[str, str]) -> bool:
    """Whether PATH is neither the host's own nor the operator's."""
    by_operator = None if spec.command_from_manifest else spec.env.get("PATH")
    return env.get("PATH") not in (None, by_operator, os.environ.get("PATH"))


def _manifest_dirs(command: tuple[str, ...], cwd: str | None) -> tuple[str, ...]:
    """The directory with the manifest that the command comes from, as its contract has resolved it."""
    if cwd is not None:
        return (cwd,)
    return (os.path.dirname(command[0]),) if os.path.isabs(command[0]) else ()


def _check_real(path: str) -> str:
    """Check a real path that its contract has resolved; SandboxUnavailable when a symlink is in it by now."""
    file_identity(path)
    return path


def _protected_paths(
    found: command_cache.ResolvedCommand, grants: ResolvedGrants, folders: tuple[str, ...]
) -> ProtectedPaths:
    """The paths that this sandbox is built from; SandboxUnavailable when the plugin could write one itself,
    and so change what its next process is given."""
    links = (link for link, _ in (*found.links, *grants.links))
    code = (*found.code, *found.reads, *found.executes, *found.libraries, *links)
    identities = tuple((folder, file_identity(folder)) for folder in folders)
    protected = ProtectedPaths(grants.write, grants.read, tuple(dict.fromkeys(code)), identities)
    if (conflict := protected.writable_by(protected)) is not None:
        raise SandboxUnavailable(
            f"{conflict[0]} must not be writable for the plugin, but a grant to write {conflict[1]} "
            "includes it",
            hint="grant a writable folder that contains neither its programs nor a symlink that "
            "another grant names",
        )
    return protected


def _identities(paths: Iterable[str]) -> tuple[tuple[str, str], ...]:
    """Identities of all paths but those that only root can replace: upgrades of the system do that."""
    return tuple(
        (path, file_identity(path)) for path in dict.fromkeys(paths) if not trusted_files.is_public(path)
    )


def _seen_inside(cwd: str, found: command_cache.ResolvedCommand, grants: ResolvedGrants) -> str | None:
    """The working directory, if it exists inside: something in it is visible, or it is in a visible
    directory. Else None."""
    real = os.path.realpath(cwd)
    inside = (*found.code, *found.executes, *found.reads, *grants.read, *grants.write)
    seen = any(
        trusted_files.is_beneath(path, real) or trusted_files.is_beneath(real, path) for path in inside
    )
    return real if seen else None


def _check_reachable(
    found: command_cache.ResolvedCommand, grants: ResolvedGrants, user: User, future_dir: str | None
) -> None:
    check_reachable((*found.executes, *found.libraries, *found.reads, *found.code, *grants.read), user)
    check_reachable([path for path in grants.write if path != future_dir], user, os.R_OK | os.W_OK)


def _shared_dirs(env: Mapping[str, str], egress: EgressInputs | None) -> Iterator[str]:
    """The shared public directories that this plugin may need. Each costs a mount, so there are no others."""
    wanted = [ZONES]
    if any(env.get(name, "") not in _BUILT_IN for name in ("LANG", "LC_ALL", "LC_CTYPE")):
        wanted.append(LOCALES)
    if egress is not None:
        wanted += CERTIFICATES
    return (path for path in wanted if trusted_files.is_public(path))


def _write_etc(
    plugin_dir: PluginDir,
    machine: features.KernelFeatures,
    found: command_cache.ResolvedCommand,
    grants: ResolvedGrants,
    shared: tuple[str, ...],
    egress: EgressInputs | None,
) -> str:
    """Write the plugin's /etc: nothing of the machine's but what programs cannot do without."""
    uid, gid = plugin_dir.user or (machine.uid, os.getegid())
    files = {
        "passwd": f"root:x:0:0::/:/\nplugin:x:{uid}:{gid}::/tmp:/\n".encode(),
        "group": f"root:x:0:\nplugin:x:{gid}:\n".encode(),
        # There is no name server inside, but a query to one is a denial that the watcher can report; reading
        # a file alone would not be.
        "nsswitch.conf": b"passwd: files\ngroup: files\nhosts: files dns\n",
        "hosts": (egress.hosts if egress is not None else "127.0.0.1 localhost\n").encode(),
        "ld.so.cache": shared_libraries.cache_bytes(),
        "localtime": _zone(),
    }
    inside = (*found.code, *found.reads, *found.executes, *grants.read, *grants.write, *shared)
    return plugin_dir.write_etc(
        {name: content for name, content in files.items() if content},
        [path for path in inside if path.startswith("/etc/")],
        [link for link in (*found.links, *grants.links) if link[0].startswith("/etc/")],
    )


def _zone() -> bytes:
    fd = open_file("/etc/localtime")
    if fd is None:
        return b""
    try:
        return os.pread(fd, LARGEST_ZONE, 0)
    finally:
        os.close(fd)
