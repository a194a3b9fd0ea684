"""An axis: one thing that plugins of a contract must do, and the test that finds out."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from plughost.conformance.plugin_under_test import PluginUnderTest


class Failed(Exception):
    """The plugin does not do it. The text says what it did instead."""


class Skipped(Exception):
    """Only its behaviour could tell, and it did: the plugin is not asked. The text says why."""


class Warned(Exception):
    """The plugin does it, but for something that only a strict reading of its contract asks for."""


def _always(subject: PluginUnderTest) -> str | None:
    return None


class Axis(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    promise: str
    """What a plugin that passes does, in a sentence."""
    test: Callable[[PluginUnderTest], Awaitable[None]]
    """Raises Failed, or any PluginError that a host would have met; or Spared, or Warned."""
    spares: Callable[[PluginUnderTest], str | None] = _always
    """Why a plugin is not asked; None when it is."""


class AxisVerdict(msgspec.Struct, frozen=True, kw_only=True):
    axis: str
    outcome: str
    """passed | warned | failed | skipped"""
    reason: str = ""
    frames: tuple[str, ...] = ()
    """The last frames before it failed: `>` to the plugin, `<` from it."""
    seconds: float = 0.0


def require(condition: object, otherwise: str) -> None:
    if not condition:
        raise Failed(otherwise)
