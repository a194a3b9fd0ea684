"""How a plugin is run, as a value that says why it cannot do more than it may."""

from __future__ import annotations

import msgspec

from plughost.guard.powers import NONE, Powers
from plughost.runtime.launch import Launch

CLASSES = ("strict", "landlock", "none")


class Holding(msgspec.Struct, frozen=True):
    """One power or limit, and what holds the plugin to it."""

    what: str
    by: str


class Confinement(msgspec.Struct, frozen=True):
    """What was decided for one plugin."""

    confined: str
    """The class."""
    launch: Launch
    holdings: tuple[Holding, ...] = ()
    """For people and for records."""
    powers: Powers = NONE
    """What it may reach."""
    summed: int | None = None
    """Bytes of memory that the host itself must hold all its processes to, together."""


def unconfined(launch: Launch, powers: Powers) -> Confinement:
    """The class none."""
    return Confinement("none", launch, (Holding("everything", "nothing"),), powers)
