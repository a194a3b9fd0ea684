"""How a plugin is run, as a value that says why it cannot do more than it may."""

from __future__ import annotations

import msgspec

from plughost.engine.launcher.launch import Launch
from plughost.permissions.access import NONE, Powers
from plughost.sandbox.denials.visible_access import Reach
from plughost.sandbox.protected_paths import Footing

CLASSES = ("strict", "landlock", "none")


class Holding(msgspec.Struct, frozen=True):
    """One power or limit, and what holds the plugin to it."""

    what: str
    by: str


class Place(msgspec.Struct, frozen=True):
    """A file, or a folder with all below it, that there is for the plugin."""

    path: str
    """Where the plugin finds it."""
    writable: bool = False
    made: bool = False
    """It is not the machine's: the host has made it for the plugin."""


class Confinement(msgspec.Struct, frozen=True):
    """What was decided for one plugin."""

    confined: str
    """The class."""
    launch: Launch
    holdings: tuple[Holding, ...] = ()
    """For people and for records."""
    powers: Powers = NONE
    """What it may reach."""
    places: tuple[Place, ...] = ()
    """What there is of the machine, or for Landlock what is open of it."""
    starts_in: str = ""
    """The folder, as the plugin sees it."""
    summed: int | None = None
    """Bytes of memory that the host itself must hold all its processes to, together."""
    footing: Footing = Footing()
    """What must not be in other plugins' hands."""
    reach: Reach = Reach()
    """What its denials are judged by."""
    writable_tmp: bool = True
    """Whether it may write to a /tmp and a /dev/shm of its own."""


def unconfined(launch: Launch, powers: Powers) -> Confinement:
    """The class none."""
    return Confinement("none", launch, (Holding("everything", "nothing"),), powers)
