"""How a plugin is run, as a value that says why it cannot do more than it may."""

from __future__ import annotations

import msgspec

from plughost.engine.launcher.launch import Launch
from plughost.permissions.access import NONE, Access
from plughost.sandbox.denials.visible_access import VisibleAccess
from plughost.sandbox.protected_paths import ProtectedPaths

CLASSES = ("strict", "landlock", "none")


class Enforcement(msgspec.Struct, frozen=True):
    """One power or limit, and what holds the plugin to it."""

    what: str
    by: str


class VisiblePath(msgspec.Struct, frozen=True):
    """A file, or a folder with all below it, that there is for the plugin."""

    path: str
    """Where the plugin finds it."""
    writable: bool = False
    made: bool = False
    """It is not the machine's: the host has made it for the plugin."""


class SandboxPlan(msgspec.Struct, frozen=True):
    """What was decided for one plugin."""

    confined: str
    """The class."""
    launch: Launch
    holdings: tuple[Enforcement, ...] = ()
    """For people and for records."""
    powers: Access = NONE
    """What it may reach."""
    places: tuple[VisiblePath, ...] = ()
    """What there is of the machine, or for Landlock what is open of it."""
    starts_in: str = ""
    """The folder, as the plugin sees it."""
    summed: int | None = None
    """Bytes of memory that the host itself must hold all its processes to, together."""
    footing: ProtectedPaths = ProtectedPaths()
    """What must not be in other plugins' hands."""
    reach: VisibleAccess = VisibleAccess()
    """What its denials are judged by."""
    writable_tmp: bool = True
    """Whether it may write to a /tmp and a /dev/shm of its own."""


def unconfined(launch: Launch, powers: Access) -> SandboxPlan:
    """The class none."""
    return SandboxPlan("none", launch, (Enforcement("everything", "nothing"),), powers)
