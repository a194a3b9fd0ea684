"""Tags that stand for "what is said about this digest", where there is no better way to ask."""

from __future__ import annotations

import re

from plughost.vai.packages.oci.digests import hex_of

_FALLBACK = re.compile(r"sha256-[0-9a-f]{64}(?:\.sig)?")


def fallback_tag(digest: str) -> str:
    """OCI's own: an index of referrers."""
    return f"sha256-{hex_of(digest)}"


def older_tag(digest: str) -> str:
    """That of older signing tools: one manifest, or an index, without a word of its subject."""
    return f"{fallback_tag(digest)}.sig"


def is_fallback(tag: str) -> bool:
    return _FALLBACK.fullmatch(tag) is not None
