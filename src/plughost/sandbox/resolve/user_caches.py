"""Folders in which package managers and runtimes keep things for one user.

They come and go, so no advice to an operator leads into one.
"""

from __future__ import annotations

import re

CACHED = re.compile(
    r".*/(\.cache|\.npm|_npx|_cacache|\.yarn|\.pnpm-store|\.bun|\.deno|\.gradle|\.m2|Caches"
    r"|\.cargo/registry|go/pkg/mod)(/.*)?"
)
