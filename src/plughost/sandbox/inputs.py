"""What is found and made ready outside before a plugin is confined."""

from __future__ import annotations

from typing import Protocol

import msgspec

from plughost.sandbox.memory.cgroups import Cgroup
from plughost.sandbox.protected_paths import ProtectedPaths
from plughost.sandbox.resolve.command_cache import ResolvedCommand
from plughost.sandbox.resolve.grants import ResolvedGrants
from plughost.sandbox.users import User


class EgressInputs(Protocol):
    """The proxy through which granted endpoints are reached, as one plugin is shown it."""

    socket: str
    """Its path outside."""
    listing: str
    """What the forwarder inside listens on: lines of `kind address port …`."""
    hosts: str
    """The plugin's /etc/hosts."""
    env: dict[str, str]


class SandboxInputs(msgspec.Struct, frozen=True, kw_only=True):
    """What was found and made ready for one plugin outside."""

    runnable: ResolvedCommand
    granted: ResolvedGrants = ResolvedGrants()
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
    system: tuple[str, ...] = ()
    """What programs read of any system, where they are not given an /etc of their own."""
    same: tuple[tuple[str, str], ...] = ()
    """What must still be there when it is run, as (path, identity)."""
    footing: ProtectedPaths = ProtectedPaths()
    private: tuple[str, ...] = ()
    """Where hosts keep what is theirs."""
    listable: tuple[str, ...] = ()
    """Folders whose entries it may list; of what is in them it sees what it is given, and no more."""
    writable_tmp: bool = True
    """Whether it may write to its /tmp and its /dev/shm."""
    file_locks: bool = True
    """Whether it may lock and watch files."""
    way_out: EgressInputs | None = None
    group: Cgroup | None = None
    """The control group that counts what all its processes use."""
