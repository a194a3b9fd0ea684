"""Shares of a rollout: how much of the traffic each active version of an export serves.

At most two versions of an export are active in one scope, and their percents sum to 100. The only active
version has 100, a second one starts at 0, and a disabled one has 0.
"""

from __future__ import annotations

from collections.abc import Sequence

from plughost.gateway.problems import FieldError, Problem

POINTER = "/rollout/traffic_percent"
MAX_ACTIVE = 2
"""Active versions of an export in one scope."""


def share_after(
    *, active: bool, asked: int | None, before: int | None, others: Sequence[int], is_new: bool = False
) -> int:
    """The percent of a version after a change; the other active version gets the rest.

    `before` is its percent when it was active already, else None; `others` are those of the other active
    versions. `conflict` for a third active version, `invalid_request` for percents that do not sum to 100.
    """
    if active and len(others) >= MAX_ACTIVE:
        raise Problem(
            "conflict",
            f"{len(others)} versions of this export are active already",
            hint="Disable one of them first.",
        )
    if wrong := share_problems(active=active, asked=asked, others=others, is_new=is_new):
        raise Problem("invalid_request", "the traffic percents do not sum to 100", errors=wrong)
    if not active:
        return 0
    if not others:
        return 100
    return asked if asked is not None else before or 0


def share_problems(
    *, active: bool, asked: int | None, others: Sequence[int], is_new: bool = False
) -> list[FieldError]:
    """The problem of a percent that cannot be set, whatever the other active version gets."""
    if asked is None:
        return []
    if not active and asked != 0:
        return [FieldError(POINTER, "a disabled version serves 0 percent")]
    if active and not others and asked != 100:
        return [FieldError(POINTER, "the only active version serves 100 percent")]
    if active and others and is_new and asked != 0:
        return [FieldError(POINTER, "a second version starts at 0 percent; raise its share later")]
    return []
