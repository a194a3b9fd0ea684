"""An axis: one promise of a contract, and the test that checks it; also its verdict."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from plughost.conformance.plugin_under_test import PluginUnderTest


class Failed(Exception):
    """Raised by an axis: the plugin breaks the promise. The text says what it did instead."""


class Skipped(Exception):
    """Raised by an axis: its behaviour shows that the promise does not apply to the plugin. The text says
    why."""


class Warned(Exception):
    """Raised by an axis: the plugin keeps the promise, except for what only a strict reading of the contract
    asks."""


def _always(subject: PluginUnderTest) -> str | None:
    return None


class Axis(msgspec.Struct, frozen=True, kw_only=True):
    """One promise of a contract, with the test that checks it."""

    name: str
    promise: str
    """What a conforming plugin does, in one sentence."""
    test: Callable[[PluginUnderTest], Awaitable[None]]
    """Raises Failed, Skipped or Warned, or any PluginError that a host would have raised."""
    skip_reason: Callable[[PluginUnderTest], str | None] = _always
    """The reason why the axis does not apply to a plugin; None when it does."""


class AxisVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one axis for one plugin or host."""

    axis: str
    outcome: str
    """passed | warned | failed | skipped"""
    reason: str = ""
    frames: tuple[str, ...] = ()
    """The last frames before the failure: `>` to the plugin, `<` from it."""
    seconds: float = 0.0


def require(condition: object, otherwise: str) -> None:
    """Asserts a condition: raises Failed with the message `otherwise` when it is false."""
    if not condition:
        raise Failed(otherwise)
