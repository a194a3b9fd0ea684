"""What a contract is to the host: tables, a way to read its manifests, and a session.

A contract outside this package implements `Contract`, registers in the entry-point group
`plughost.contracts`, exactly as ours do, and is found by name (`registry.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from plughost.engine.policy import LifecyclePolicy
from plughost.engine.session import Session
from plughost.permissions.access import NONE, Access
from plughost.permissions.capability import Capability
from plughost.permissions.operator_only import OperatorAccess
from plughost.spec import PluginSpec

if TYPE_CHECKING:  # import time that a program may not need to spend
    from pathlib import Path


class HostMethod(msgspec.Struct, frozen=True):
    """A method the plugin may call on the host: what it needs, and who answers."""

    service: str
    """The service's name, and after a dot its method: `snapshots.get`."""
    capability: str | None = None
    """Needed to call it; checked before anything else."""
    params: Any = dict
    """What the params must be."""
    result: Callable[[Any], Any] | None = None
    """How the contract words what the service returns."""
    checks: tuple[str, ...] = ()
    """Instead of one capability: the service itself decides which of these is needed."""
    notification: bool = False
    """The plugin tells and does not ask: heard at once and in its order, and nothing is answered."""


class GrantEffect(msgspec.Struct, frozen=True):
    """What one grant of the operator's comes to."""

    capabilities: frozenset[Capability] = frozenset()
    powers: Access = NONE


class DataFolder(msgspec.Struct, frozen=True):
    """A folder for one plugin alone, made before it is first started."""

    path: str
    owner: str | None = None
    """The plugin's own folder: no other plugin of its name gets the data. None for a temporary folder."""
    make_parents: bool = False
    """Whether missing folders around it are made: only below a place of the host's own."""


class ResolvedSpec(msgspec.Struct, frozen=True):
    """A plugin's spec as its contract understands it: everything checked, nothing started."""

    policy: LifecyclePolicy
    env: Mapping[str, str]
    """The whole environment of the process."""
    capabilities: frozenset[Capability] = frozenset()
    operator: OperatorAccess = OperatorAccess()
    """What the operator has named himself; the other capabilities are the manifest's word."""
    asked: tuple[Capability, ...] | None = None
    """The capabilities that its manifest asks for; None when that is not known before it runs."""
    asked_by_call: tuple[Capability, ...] = ()
    """What its manifest asks for, and each call is given or not by whoever makes it."""
    given: Mapping[str, GrantEffect] = {}
    """What the operator's grants come to, by their words, where they mean more than the capability of that
    name."""
    methods: frozenset[str] | None = None
    """What may be called; None when the contract leaves that to the plugin."""
    settings: Any = None
    """The contract's own, for its session."""
    told_command: tuple[str, ...] | None = None
    """The command that its manifest tells; whoever runs it runs another when a reload finds one there."""
    topics: tuple[str, ...] = ()
    """What it is subscribed to whenever it runs."""
    provides: Mapping[str, tuple[str, ...]] = {}
    """What it has for others, by kind: screens, commands, cli_namespaces …"""
    log_level: str | None = None
    """From which level up its log is kept; None is the usual."""
    lints: tuple[str, ...] = ()
    """What was accepted, but should be better."""
    declared: Access | None = None
    """The powers its manifest asks for: the operator's word counts no further. None when the contract has no
    words for them; then the operator alone decides."""
    data: DataFolder | None = None
    folder: str | None = None
    """The plugin's own folder, which tells it from another one of its name."""
    own: Access = NONE
    """What it has without `allow`: by its grants, and what is its own, such as a data folder."""
    listable: tuple[str, ...] = ()
    """Folders of which it is given parts, and whose entries it may list: without that an interpreter does not
    find what lies in them."""
    resolved: Mapping[str, str] = {}
    """Of the paths in `own`, those that are not the operator's word, with the real path that was checked: a
    path that leads elsewhere when the plugin is confined was replaced, and is refused."""
    writable_tmp: bool = True
    """Whether a confined process may write to a /tmp and a /dev/shm of its own."""
    file_locks: bool = True
    """Whether a confined process may lock and watch files. Whoever else has the same file would see it."""
    granting: Mapping[str, str] = {}
    """How its contract words a grant to read, write, execute or connect, with {path} and {name} in it, and of
    one `item` of a capability's list; what is not here the operator allows in plughost's own words."""
    offered: frozenset[str] = frozenset()
    """The methods of the reverse table that somebody in this host answers; the host fills it in."""

    def __repr__(self) -> str:  # the environment may hold secrets
        return f"ResolvedSpec(policy={self.policy!r}, env=<{len(self.env)} variables>)"


class Contract(Protocol):
    name: str
    options: type[msgspec.Struct]
    """The contract's own settings in plughost.toml and in PluginSpec.options."""
    reverse: Mapping[str, HostMethod]
    """What its plugins may ask of the host."""
    default_grants: tuple[str, ...]
    """What the operator allows who says nothing."""
    sandbox: str
    """How its plugins are confined when the operator says nothing: strict | landlock | none."""

    def read_folder(self, folder: Path) -> PluginSpec | None:
        """The spec that the folder's manifest tells; None when it is not of this contract."""

    def bind(self, spec: PluginSpec) -> ResolvedSpec:
        """Check the spec whole; InvalidSpec before any process exists."""

    def session(self, spec: PluginSpec, binding: ResolvedSpec) -> Session:
        """A conversation for one instance."""
