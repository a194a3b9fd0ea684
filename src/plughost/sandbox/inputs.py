"""The inputs of a sandbox plan: everything that is looked up and prepared outside before a plugin is
confined."""

from __future__ import annotations

from typing import Protocol

import msgspec

from plughost.sandbox.memory.cgroups import Cgroup
from plughost.sandbox.protected_paths import ProtectedPaths
from plughost.sandbox.resolve.command_cache import ResolvedCommand
from plughost.sandbox.resolve.grants import ResolvedGrants
from plughost.sandbox.users import User


class EgressInputs(Protocol):
    """The egress proxy of one plugin, as its sandbox is configured to use it."""

    socket: str
    """The path of the proxy's Unix socket, outside."""
    listing: str
    """The listeners of the forwarder inside: lines of `kind address port …`."""
    hosts: str
    """The contents of the plugin's /etc/hosts."""
    env: dict[str, str]


class SandboxInputs(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that was looked up and prepared outside for one plugin."""

    runnable: ResolvedCommand
    granted: ResolvedGrants = ResolvedGrants()
    user: User | None = None
    """The user that the plugin runs as, when that is not the host's own user."""
    inner: str
    """The path of `plughost-inner`, where the plugin's user can execute it."""
    etc: str = ""
    """The directory that becomes the plugin's /etc."""
    scratch: str = ""
    """The scratch directory, for a class that cannot give the plugin a /tmp of its own."""
    shared: tuple[str, ...] = ()
    """Public directories that any program may need: time zones, locales, certificates."""
    system: tuple[str, ...] = ()
    """Files that programs read on any system, for a class that does not give the plugin its own /etc."""
    identities: tuple[tuple[str, str], ...] = ()
    """Files that must be unchanged when the plugin is executed, as (path, identity)."""
    protected_paths: ProtectedPaths = ProtectedPaths()
    private: tuple[str, ...] = ()
    """Directories that belong to hosts alone."""
    listable: tuple[str, ...] = ()
    """Directories whose entries can be listed; of their contents only what is granted can be seen."""
    writable_tmp: bool = True
    """Whether the plugin may write to its /tmp and its /dev/shm."""
    file_locks: bool = True
    """Whether the plugin may lock and watch files."""
    egress: EgressInputs | None = None
    group: Cgroup | None = None
    """The control group that limits the memory and processes of the whole process tree."""
