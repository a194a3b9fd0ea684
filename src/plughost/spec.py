"""PluginSpec: the program of a plugin, its contract, and everything that the operator grants it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from plughost._util.plugin_names import check_name
from plughost.errors import InvalidSpec
from plughost.permissions.access import NONE, Access, ResourceLimits
from plughost.wire.method_description import MethodDescription


class PluginSpec(msgspec.Struct, frozen=True, kw_only=True):
    """The specification of one plugin: what to run, under which contract, with which rights and limits.

    `options` are the contract's own settings.
    """

    contract: str
    name: str
    command: Sequence[str] = ()
    """The program and its arguments. Empty only for contracts whose plugins are not processes of this
    host."""
    cwd: str | None = None
    """Working directory of the process. A path without symlinks if `command_from_manifest`."""
    cwd_is_plugin_dir: bool = True
    """Whether `cwd` is the plugin's own folder, which it may read inside a sandbox. Otherwise it is only the
    working directory."""
    folder: str | None = None
    """The plugin's folder, if the plugin was added by its folder. Its manifest is there, whatever `command`
    says, and data stored for the plugin belongs to this folder."""
    command_from_manifest: bool = False
    """Whether `command` comes from the plugin's own folder (its manifest or its plughost.toml) and not from
    the operator: then a sandbox shows nothing private that it names. That folder is `cwd` or, without one,
    the folder of the program."""
    excluded_file: str | None = None
    """A file that must not be inside any folder shown to the plugin as its own: the plughost.toml that also
    configures other plugins."""
    env: Mapping[str, str] = {}
    grants: Sequence[str] = ()
    """Capabilities that the operator grants, in the syntax of the contract."""
    options: Mapping[str, Any] = {}
    sandbox: str | None = None
    """Sandbox class of its processes: strict, landlock or none. Default: the contract's."""
    allow: Access = NONE
    """Files, programs and hosts that a sandboxed process may use beside its own code and scratch folder."""
    limits: ResourceLimits = ResourceLimits()
    """Resource limits of a sandboxed plugin: memory, processes, files, CPU time."""

    methods: Sequence[MethodDescription] = ()
    """What the operator says about its methods, for the catalogue."""

    def __post_init__(self) -> None:
        check_name(self.name)
        for field, kind in (("allow", Access), ("limits", ResourceLimits)):
            if not isinstance(value := getattr(self, field), kind):
                expected = f"plughost.{kind.__name__}"
                raise InvalidSpec(
                    f"{field} is a {type(value).__name__}, not a {expected}",
                    hint=f"to parse the form that plughost.toml has, write {field}={expected}.parse({{...}})",
                    plugin=self.name,
                )

    def __repr__(self) -> str:  # the environment may hold secrets
        return f"PluginSpec(contract={self.contract!r}, name={self.name!r}, command={list(self.command)!r})"
