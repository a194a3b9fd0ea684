"""JSON merge patch (RFC 7396): a patch has the form of the document; null removes a member."""

from __future__ import annotations

from typing import Any

from plughost.gateway.problems import Problem

MAX_DEPTH = 100
"""Levels of objects in a patch; a deeper one is refused."""


def merge(target: Any, patch: Any, depth: int = 0) -> Any:
    """The document after the patch. Neither argument is changed. `invalid_request` for a patch that is nested
    too deeply."""
    if not isinstance(patch, dict):
        return patch
    if depth > MAX_DEPTH:
        raise Problem("invalid_request", f"the patch is nested more than {MAX_DEPTH} levels deep")
    merged = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            merged.pop(name, None)
        else:
            merged[name] = merge(merged.get(name), value, depth + 1)
    return merged
