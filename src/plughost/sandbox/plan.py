"""The sandbox plan of a plugin, as a value: how to launch it, what it can see, and what enforces each
limit."""

from __future__ import annotations

import msgspec

from plughost.engine.launcher.launch import Launch
from plughost.permissions.access import NONE, Access
from plughost.sandbox.denials.visible_access import VisibleAccess
from plughost.sandbox.protected_paths import ProtectedPaths

CLASSES = ("strict", "landlock", "none")


class Enforcement(msgspec.Struct, frozen=True):
    """One grant or limit (`what`), and the mechanism that enforces it (`by`)."""

    what: str
    by: str


class VisiblePath(msgspec.Struct, frozen=True):
    """A file, or a directory with everything below it, that exists for the plugin."""

    path: str
    """The path inside the sandbox."""
    writable: bool = False
    made: bool = False
    """Created by the host for the plugin, not a file of the machine."""


class SandboxPlan(msgspec.Struct, frozen=True):
    """The decision for one plugin."""

    confined: str
    """The class: one of `CLASSES`."""
    launch: Launch
    enforcement: tuple[Enforcement, ...] = ()
    """What enforces each grant and limit, for people and for records."""
    access: Access = NONE
    """The effective access."""
    visible_paths: tuple[VisiblePath, ...] = ()
    """Files and directories of the machine that exist inside; in class landlock, those that are open."""
    starts_in: str = ""
    """The working directory, as the plugin sees it."""
    metered_memory: int | None = None
    """Bytes of memory to which the host itself must limit the process tree; None where the kernel does it, or
    there is no limit."""
    protected_paths: ProtectedPaths = ProtectedPaths()
    """Paths that the sandbox is built from, which no other plugin may write."""
    visible_access: VisibleAccess = VisibleAccess()
    """The visible part of the machine, by which denials are classified."""
    writable_tmp: bool = True
    """Whether the plugin may write to a /tmp and a /dev/shm of its own."""


_NOTHING_ENFORCED = (Enforcement("everything", "nothing"),)


def unconfined(launch: Launch, access: Access) -> SandboxPlan:
    """The plan of class none: nothing is enforced."""
    return SandboxPlan("none", launch, _NOTHING_ENFORCED, access)
