"""Package and PackageSource: a verified package as invocations use it, and the protocol to find one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import msgspec

from plughost.contracts.vai.manifest import VaiManifest


class Package(msgspec.Struct, frozen=True, kw_only=True):
    """A package that can be executed: its folder, digest and manifest."""

    folder: str
    digest: str
    manifest: VaiManifest
    trusted_inline: bool = False
    """Whether its publisher is trusted with the calls of all tenants in one process."""
    check: Callable[[], None] | None = None
    """Raises Damaged when the files are not those that were signed. Blocking; called before any file is used
    and before every process start. None for the folder of an author, which is not signed."""


class PackageSource(Protocol):
    """Finds packages by id and version."""

    def find(self, package_id: str, version: str) -> Package:
        """The package; InvalidSpec when it is not installed."""
