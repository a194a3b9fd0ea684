"""The types that a contract is made of: the `Contract` protocol, its base class, and the resolved spec.

A contract outside this package implements `Contract`, registers in the entry-point group
`plughost.contracts`, exactly as ours do, and is found by name (`registry.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from plughost.engine.link import OpenLink
from plughost.engine.policy import LifecyclePolicy
from plughost.engine.session import Session
from plughost.permissions.access import NONE, Access
from plughost.permissions.capability import Capability
from plughost.permissions.operator_only import OperatorAccess
from plughost.services.base import ServiceFactory
from plughost.services.host_method import HostMethod
from plughost.spec import PluginSpec
from plughost.wire.method_description import MethodDescription

if TYPE_CHECKING:  # import time that a program may not need to spend
    from pathlib import Path


class GrantEffect(msgspec.Struct, frozen=True):
    """The capabilities and the access that one grant of the operator gives."""

    capabilities: frozenset[Capability] = frozenset()
    access: Access = NONE


class DataFolder(msgspec.Struct, frozen=True):
    """The data folder of one plugin, created before its first start."""

    path: str
    owner: str | None = None
    """The plugin's own folder: no other plugin of the same name gets the data. None for a temporary
    folder."""
    make_parents: bool = False
    """Whether missing parent folders are created: only below a folder of the host's own."""


class Permissions(msgspec.Struct, frozen=True):
    """What a plugin asks for and what it is given: for the dispatcher, the sandbox and `explain`."""

    capabilities: frozenset[Capability] = frozenset()
    """The capabilities that it has: asked for by its manifest and granted by the operator."""
    operator: OperatorAccess = OperatorAccess()
    """The access that the operator names himself; the other capabilities come from the manifest alone."""
    asked: tuple[Capability, ...] | None = None
    """The capabilities that the manifest asks for; None when they are known only after the handshake."""
    asked_by_call: tuple[Capability, ...] = ()
    """Permissions that the manifest asks for and that each call's binding grants or denies."""
    given: Mapping[str, GrantEffect] = {}
    """The effect of each of the operator's grants, by its text, where a grant means more than the capability
    of that name."""
    declared: Access | None = None
    """The access that the manifest asks for, an upper bound on the operator's `allow`. None when manifests of
    this contract cannot declare access: then the operator alone decides."""
    own: Access = NONE
    """The access that it has without `allow`: by its grants, and to its own paths such as a data folder."""
    granting: Mapping[str, str] = {}
    """Templates for grant hints: how the contract writes a grant to read, write, execute or connect, with
    {path} and {name}, and of one `item` of a capability's list. Without a template the hint uses plughost's
    own `allow`."""


class SandboxNeeds(msgspec.Struct, frozen=True):
    """What the sandbox of a plugin must prepare, besides its access."""

    data: DataFolder | None = None
    listable: tuple[str, ...] = ()
    """Folders of which only parts are visible, but whose entries may be listed: interpreters need that to
    find modules."""
    real_paths: Mapping[str, str] = {}
    """For the paths in `Permissions.own` that the operator did not name, the real path that was checked. A
    path that resolves elsewhere when the sandbox is set up was replaced, and is refused."""
    writable_tmp: bool = True
    """Whether a sandboxed process gets a private, writable /tmp and /dev/shm."""
    file_locks: bool = True
    """Whether a sandboxed process may lock and watch files; other processes with the same file would
    notice."""


class ResolvedSpec(msgspec.Struct, frozen=True):
    """A plugin's spec, checked and completed by its contract. Nothing is started yet."""

    policy: LifecyclePolicy
    env: Mapping[str, str]
    """The complete environment of the process."""
    permissions: Permissions = Permissions()
    sandbox: SandboxNeeds = SandboxNeeds()
    settings: Any = None
    """The contract's own settings, for its session and its typed client."""
    methods: frozenset[str] | None = None
    """The methods that may be called; None when the contract leaves the check to the plugin."""
    described: tuple[MethodDescription, ...] = ()
    """What can be called, as the manifest describes it, for the catalogue."""
    manifest_command: tuple[str, ...] | None = None
    """The command in the manifest; after a reload that finds another command there, that one is run."""
    folder: str | None = None
    """The plugin's own folder, which distinguishes it from another plugin of the same name."""
    topics: tuple[str, ...] = ()
    """The topics to which the plugin is subscribed whenever it runs."""
    provides: Mapping[str, tuple[str, ...]] = {}
    """The names that the plugin provides, by kind: screens, commands, cli_namespaces …"""
    log_level: str | None = None
    """The lowest level of its log messages that are kept; None for the default."""
    lints: tuple[str, ...] = ()
    """Warnings about a spec or manifest that is accepted but should be improved."""
    open_link: OpenLink | None = None
    """Opens the link to a plugin that is not a process of this host. It has no command, nothing is launched
    and nothing is sandboxed for it. None for all others."""
    offered: frozenset[str] = frozenset()
    """The methods of the contract's `host_methods` that a service of this host answers; filled in by the
    host."""

    def __repr__(self) -> str:  # the environment may hold secrets
        return f"ResolvedSpec(policy={self.policy!r}, env=<{len(self.env)} variables>)"


class Contract(Protocol):
    """The protocol that every contract implements: its tables, its manifest reader and its session
    factory."""

    name: str
    options: type[msgspec.Struct]
    """The contract's own options in plughost.toml and in PluginSpec.options."""
    host_methods: Mapping[str, HostMethod]
    """The host methods that its plugins may call, by wire method."""
    services: Mapping[str, ServiceFactory]
    """Services of the contract's own, by name: they answer its host methods before the built-in ones do. A
    program's own service of that name comes first."""
    default_grants: tuple[str, ...]
    """The grants of a plugin for which the operator sets none."""
    sandbox: str
    """The sandbox class of a plugin for which the operator sets none: strict | landlock | none."""
    needs_command: bool
    """Whether its plugins are processes, which a `command` starts."""
    resolves_without_files: bool
    """Whether `resolve` opens no files. Otherwise it is called in a thread: manifests are untrusted
    documents, and the disk may be slow."""

    def read_folder(self, folder: Path) -> PluginSpec | None:
        """Returns the spec described by the folder's manifest; None when the folder has no manifest of this
        contract."""

    def resolve(self, spec: PluginSpec) -> ResolvedSpec:
        """Checks and resolves the whole spec. Raises InvalidSpec before any process exists."""

    def session(self, spec: PluginSpec, resolved: ResolvedSpec) -> Session:
        """Creates the protocol session of one plugin instance."""


class BaseContract:
    """A base class with the defaults of most contracts; a contract overrides what differs."""

    host_methods: Mapping[str, HostMethod] = {}
    services: Mapping[str, ServiceFactory] = {}
    default_grants: tuple[str, ...] = ()
    sandbox = "none"
    needs_command = True
    resolves_without_files = False

    def read_folder(self, folder: Path) -> PluginSpec | None:
        return None
