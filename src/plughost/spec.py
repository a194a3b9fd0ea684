"""PluginSpec: what to run, under which contract, and what the operator allows it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from plughost._util.plugin_names import check_name
from plughost.errors import InvalidSpec
from plughost.permissions.access import NONE, Access, ResourceLimits


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
        for field, kind in (("allow", Access), ("limits", ResourceLimits)):
            if not isinstance(value := getattr(self, field), kind):
                expected = f"plughost.{kind.__name__}"
                raise InvalidSpec(
                    f"{field} is a {type(value).__name__}, not a {expected}",
                    hint=f"for the words of plughost.toml, write {field}={expected}.parse({{...}})",
                    plugin=self.name,
                )

    def __repr__(self) -> str:  # the environment may hold secrets
        return f"PluginSpec(contract={self.contract!r}, name={self.name!r}, command={list(self.command)!r})"
