"""The nearest known name to a misspelt one, for messages."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

MAX_NAME = 100
MAX_KNOWN = 1000
"""Longer names and further known names are not compared: the time grows with their product, and the names may
be a stranger's."""

MAX_SHOWN = 30
"""Known names in a message."""


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name that `name` resembles most; None when it resembles none."""
    if len(name) > MAX_NAME:
        return None
    import difflib

    candidates = [each for each in islice(known, MAX_KNOWN) if len(each) <= MAX_NAME]
    return next(iter(difflib.get_close_matches(name, candidates, n=1)), None)


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A suffix for the message that `name` is unknown: the nearest name, or else all known names."""
    names = sorted(known)
    near = nearest(name, names)
    if near is not None:
        return f"; did you mean {near!r}?"
    shown = ", ".join(names[:MAX_SHOWN]) or "none"
    return f"; known: {shown}{' …' if len(names) > MAX_SHOWN else ''}"
