"""The answer to why a plugin may do what it may, as a value: for people, and as one JSON document."""

from __future__ import annotations

from typing import Any

import msgspec

from plughost.permissions.access import NONE, Access
from plughost.sandbox.plan import Enforcement


class GrantSource(msgspec.Struct, frozen=True, kw_only=True):
    """Where a spec's words were said: these on the command line, the others in `file`."""

    file: str = "plughost.toml"
    grants: tuple[str, ...] = ()
    allow: Access = NONE
    limits: tuple[str, ...] = ()
    sandbox: bool = False


class AskedAccess(msgspec.Struct, frozen=True):
    capabilities: tuple[str, ...] | None
    """None when they are not known before it runs."""
    powers: tuple[str, ...] | None
    """None when the contract has no words for them."""
    by_call: tuple[str, ...] = ()
    """What each call is given or not, by whoever makes it."""


class Grant(msgspec.Struct, frozen=True):
    kind: str
    """capability | read | write | execute | connect"""
    what: str
    rule: str
    """By whose word."""
    by: str
    """What holds the plugin to it."""


class Missing(msgspec.Struct, frozen=True):
    """Asked for and not granted, or not whole."""

    kind: str
    what: str
    why: str
    toml: str
    option: str
    """The words that would grant it, in plughost.toml and on the command line."""


class EnforcedLimit(msgspec.Struct, frozen=True):
    """What there is inside."""

    read_only: tuple[str, ...]
    writable: tuple[str, ...]
    made: tuple[str, ...]
    """Of both: what the host has made for it."""
    scratch: int | None
    """Bytes that /tmp has room for; None when nothing bounds it."""
    network: str
    starts_in: str


class Limit(msgspec.Struct, frozen=True):
    name: str
    value: int | None
    rule: str
    by: str


class Check(msgspec.Struct, frozen=True):
    """What the host checks when the plugin asks it for something, whatever its class."""

    method: str
    needs: tuple[str, ...]
    """Any of these capabilities; none is needed when there are none."""
    allowed: bool


class Explanation(msgspec.Struct, frozen=True, kw_only=True):
    plugin: str
    contract: str
    sandbox: str
    chosen_by: str
    problem: dict[str, Any] | None
    """Why it cannot be run like this here; then everything else is what would be."""
    asked: AskedAccess
    granted: tuple[Grant, ...]
    missing: tuple[Missing, ...]
    unused: tuple[str, ...]
    """Granted, and without effect: its manifest does not ask for it."""
    bound: EnforcedLimit | None
    environment: tuple[str, ...]
    """The names of the variables that it gets."""
    limits: tuple[Limit, ...]
    held: tuple[Enforcement, ...]
    """Everything else that it is held to."""
    wire: tuple[Check, ...]
    lints: tuple[str, ...]
