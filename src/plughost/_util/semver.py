"""Semantic versions (https://semver.org)."""

from __future__ import annotations

import re

_SEMVER = re.compile(
    r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)"
    r"(-(0|[1-9]\d*|\d*[A-Za-z-][0-9A-Za-z-]*)(\.(0|[1-9]\d*|\d*[A-Za-z-][0-9A-Za-z-]*))*)?"
    r"(\+[0-9A-Za-z-]+(\.[0-9A-Za-z-]+)*)?",
    re.ASCII,
)


def is_semantic(version: str) -> bool:
    """Whether `version` is a semantic version, such as 1.2.3-rc.1."""
    return _SEMVER.fullmatch(version) is not None
