"""How much a package may be."""

from __future__ import annotations

import msgspec


class PackageLimits(msgspec.Struct, frozen=True):
    files: int = 20_000
    file_bytes: int = 512 << 20
    total_bytes: int = 1 << 30
    """Of the archive."""
    path_bytes: int = 240
    depth: int = 24


USUAL = PackageLimits()
SMALL = 1 << 20
"""Manifests, signatures: what is held in memory."""
