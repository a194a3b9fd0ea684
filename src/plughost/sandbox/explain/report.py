"""The report of `plughost explain` as a value: printed for people, or encoded as one JSON document."""

from __future__ import annotations

from typing import Any

import msgspec

from plughost.permissions.access import NONE, Access
from plughost.sandbox.plan import Enforcement


class GrantSource(msgspec.Struct, frozen=True, kw_only=True):
    """Where the operator's settings come from: these from the command line, all others from `file`."""

    file: str = "plughost.toml"
    grants: tuple[str, ...] = ()
    allow: Access = NONE
    limits: tuple[str, ...] = ()
    sandbox: bool = False


class AskedAccess(msgspec.Struct, frozen=True):
    """What the plugin asks for."""

    capabilities: tuple[str, ...] | None
    """None when they are unknown before the plugin runs."""
    powers: tuple[str, ...] | None
    """None when the contract's manifest cannot declare them."""
    by_call: tuple[str, ...] = ()
    """Capabilities that the caller of each call grants or withholds."""


class Grant(msgspec.Struct, frozen=True):
    """One capability, file, program or endpoint that is granted."""

    kind: str
    """capability | read | write | execute | connect"""
    what: str
    rule: str
    """The setting that grants it."""
    by: str
    """The mechanism that enforces it."""


class Missing(msgspec.Struct, frozen=True):
    """Something that is asked for and not granted, or only in part."""

    kind: str
    what: str
    why: str
    toml: str
    option: str
    """`toml` and `option` would grant it: in plughost.toml and on the command line."""


class EnforcedLimit(msgspec.Struct, frozen=True):
    """What exists inside the sandbox."""

    read_only: tuple[str, ...]
    writable: tuple[str, ...]
    made: tuple[str, ...]
    """Of both kinds, the paths that the host has created for the plugin."""
    scratch: int | None
    """The size of /tmp in bytes; None when it is not limited."""
    network: str
    starts_in: str


class Limit(msgspec.Struct, frozen=True):
    """One resource limit: its value, the setting it comes from, and the mechanism that enforces it."""

    name: str
    value: int | None
    rule: str
    by: str


class Check(msgspec.Struct, frozen=True):
    """A capability check of the host when the plugin calls one of its methods, in every class."""

    method: str
    needs: tuple[str, ...]
    """Any of these capabilities is enough; empty when none is needed."""
    allowed: bool


class Explanation(msgspec.Struct, frozen=True, kw_only=True):
    """The whole report of one plugin."""

    plugin: str
    contract: str
    sandbox: str
    chosen_by: str
    problem: dict[str, Any] | None
    """Why the plugin cannot be run like this here; all other fields are then what would be."""
    asked: AskedAccess
    granted: tuple[Grant, ...]
    missing: tuple[Missing, ...]
    unused: tuple[str, ...]
    """Grants without effect: the manifest does not ask for them."""
    bound: EnforcedLimit | None
    environment: tuple[str, ...]
    """The names of the environment variables that the plugin gets."""
    limits: tuple[Limit, ...]
    held: tuple[Enforcement, ...]
    """All further enforcement."""
    wire: tuple[Check, ...]
    lints: tuple[str, ...]
