"""Per-user cache directories of package managers and runtimes.

They come and go, so no hint to an operator names a path in one.
"""

from __future__ import annotations

import re

CACHED = re.compile(
    r".*/(\.cache|\.npm|_npx|_cacache|\.yarn|\.pnpm-store|\.bun|\.deno|\.gradle|\.m2|Caches"
    r"|\.cargo/registry|go/pkg/mod)(/.*)?"
)
