"""Referrers tag schema: tags that list the referrers of a digest, for registries without the referrers
API."""

from __future__ import annotations

import re

from plughost.vai.packages.oci.digests import hex_of

_FALLBACK = re.compile(r"sha256-[0-9a-f]{64}(?:\.sig)?")


def fallback_tag(digest: str) -> str:
    """The tag of OCI's own schema: an index of referrers."""
    return f"sha256-{hex_of(digest)}"


def older_tag(digest: str) -> str:
    """The tag of older signing tools (`.sig`): one manifest, or an index, without a subject."""
    return f"{fallback_tag(digest)}.sig"


def is_fallback(tag: str) -> bool:
    """Whether a tag is one of these."""
    return _FALLBACK.fullmatch(tag) is not None
