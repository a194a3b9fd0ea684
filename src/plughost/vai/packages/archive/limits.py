"""Size limits of a package."""

from __future__ import annotations

import msgspec


class PackageLimits(msgspec.Struct, frozen=True):
    """Limits on the number, size and paths of files in a package."""

    files: int = 20_000
    file_bytes: int = 512 << 20
    total_bytes: int = 1 << 30
    """Bytes of the archive."""
    path_bytes: int = 240
    depth: int = 24


DEFAULT_LIMITS = PackageLimits()
MAX_DOCUMENT_BYTES = 1 << 20
"""Bytes of a manifest or a signature, which are read into memory."""
