"""A package as invocations know it: installed, verified, and where its files are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import msgspec

from plughost.contracts.vai.manifest import VaiManifest


class Package(msgspec.Struct, frozen=True, kw_only=True):
    folder: str
    digest: str
    manifest: VaiManifest
    trusted_inline: bool = False
    """Whether its publisher is trusted with the calls of all tenants in one process."""
    check: Callable[[], None] | None = None
    """Raises Damaged when its files are not those that were signed. Blocking; called before any of them is
    used and before every process start. None for a folder that its author works on."""


class PackageSource(Protocol):
    """The seam to whoever keeps packages."""

    def find(self, package_id: str, version: str) -> Package:
        """InvalidSpec when it is not installed."""
