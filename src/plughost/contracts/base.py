"""What a contract is to the host: tables, a way to read its manifests, and a session.

A contract outside this package registers in the entry-point group `plughost.contracts`, exactly as
ours do, and is found by name.
"""

from __future__ import annotations

import asyncio
import functools
import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from plughost._util.plugin_names import check_name
from plughost._util.real_path import real_path
from plughost.engine.policy import LifecyclePolicy
from plughost.engine.session import Session
from plughost.errors import InvalidSpec
from plughost.permissions.access import NONE, Access, ResourceLimits
from plughost.permissions.capability import Capability
from plughost.permissions.operator_only import OperatorAccess

if TYPE_CHECKING:  # import time that a program may not need to spend
    from importlib.metadata import EntryPoint
    from pathlib import Path

GROUP = "plughost.contracts"


class PluginSpec(msgspec.Struct, frozen=True, kw_only=True):
    """What to run and under which contract. `options` are the contract's own settings."""

    contract: str
    name: str
    command: Sequence[str]
    cwd: str | None = None
    """Where it starts; a real path where `command_is_told`."""
    cwd_is_own: bool = True
    """Whether `cwd` is its own folder, which it may read confined, or happens to be where it starts."""
    folder: str | None = None
    """The folder of a plugin that was found by its folder: its manifest is there, whatever its command says,
    and data that is kept for it belongs to it."""
    command_is_told: bool = False
    """Whether its own folder says the command: then that names no more than anything else written there. That
    folder is `cwd` or, without one, the folder of the program."""
    kept_from: str | None = None
    """A file that no folder of its own may hold: the one that binds it and other plugins."""
    env: Mapping[str, str] = {}
    grants: Sequence[str] = ()
    """What the operator allows, in the contract's own words."""
    options: Mapping[str, Any] = {}
    sandbox: str | None = None
    """strict | landlock | none: how its processes are confined; None as its contract has it."""
    allow: Access = NONE
    """What a confined process may reach beside its own code and scratch folder."""
    limits: ResourceLimits = ResourceLimits()
    """How much of the machine it may use, confined."""

    def __post_init__(self) -> None:
        check_name(self.name)

    def __repr__(self) -> str:  # the environment may hold secrets
        return f"PluginSpec(contract={self.contract!r}, name={self.name!r}, command={list(self.command)!r})"


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
        return f"Binding(policy={self.policy!r}, env=<{len(self.env)} variables>)"


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


def sandbox_class(spec: PluginSpec, contract: Contract) -> str:
    """How it is confined: as the operator says, or else as its contract has it."""
    return contract.sandbox if spec.sandbox is None else spec.sandbox


async def resolve_in_thread(contract: Contract, spec: PluginSpec) -> ResolvedSpec:
    """`contract.bind(spec)`, in a thread: manifests are strangers' documents, and the disk may be slow.

    A contract that opens no file says so by `binds_without_files = True`, and has no thread.
    """
    if getattr(contract, "binds_without_files", False):
        return contract.bind(spec)
    return await asyncio.to_thread(contract.bind, spec)


def get_contract(name: str) -> Contract:
    """The contract called `name`."""
    found = _registered().get(name)
    if found is None:
        known = ", ".join(sorted(_registered()))
        raise InvalidSpec(f"unknown contract {name!r}; known: {known}")
    return _load(found)


def contract_names() -> list[str]:
    return sorted(_registered())


def detect_contract(folder: Path) -> PluginSpec | None:
    """The spec that a manifest in `folder` tells; None when no contract has one there.

    A folder with manifests of two contracts is refused: its author must not choose the weaker one.
    """
    told = [spec for name in contract_names() if (spec := get_contract(name).read_folder(folder)) is not None]
    if len(told) > 1:
        both = " and ".join(spec.contract for spec in told)
        raise InvalidSpec(
            f"{folder} has manifests of several contracts: {both}",
            hint="bind it in a plughost.toml of your own, which names the contract, and pass that with -c",
        )
    return told[0] if told else None


def read_options(kind: type[msgspec.Struct], spec: PluginSpec) -> Any:
    """The contract's settings out of a spec: every problem at once."""
    from plughost._util.located.document import Document

    document = Document("options", dict(spec.options), {})
    options = document.read(kind, (), dict(spec.options))
    if options is None:
        problems = "; ".join(str(problem).removeprefix("options: ") for problem in document.problems)
        raise InvalidSpec(problems, plugin=spec.name)
    return options


def folder_of(spec: PluginSpec) -> Path:
    """The folder in which a plugin starts. One that is not the operator's word was resolved when it was
    found, and is not followed again: whoever confines the plugin refuses a symlink in it."""
    from pathlib import Path

    here = spec.cwd or "."
    return Path(os.path.abspath(here) if spec.command_is_told else real_path(here))


def check_runnable(spec: PluginSpec, binding: ResolvedSpec) -> None:
    """What the operating system would only refuse later: InvalidSpec before any process exists."""
    words = [*spec.command, *binding.env, *binding.env.values(), spec.name, spec.cwd or ""]
    if not spec.command or not spec.command[0]:
        raise InvalidSpec("the command is empty", plugin=spec.name)
    if not all(isinstance(word, str) and "\0" not in word for word in words):
        raise InvalidSpec("command, cwd and env must be text without NUL characters", plugin=spec.name)
    if not all(name and "=" not in name for name in binding.env):
        raise InvalidSpec("a variable's name is empty or has a '=' in it", plugin=spec.name)


def from_host(*variables: str) -> dict[str, str]:
    """These variables of the host's own environment, as far as they are set."""
    return {name: os.environ[name] for name in variables if name in os.environ}


@functools.cache
def _registered() -> dict[str, EntryPoint]:
    from importlib.metadata import entry_points

    return {entry.name: entry for entry in entry_points(group=GROUP)}


@functools.cache
def _load(entry: EntryPoint) -> Contract:
    loaded: Contract = entry.load()
    return loaded
