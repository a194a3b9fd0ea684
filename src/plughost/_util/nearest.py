"""The nearest of known words to one that is unknown, for hints."""

from __future__ import annotations

from collections.abc import Iterable

MAX_KNOWN = 1000
"""Words that are compared, at most: a manifest may name very many."""


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The known word that was probably meant; None when none is near."""
    import difflib

    close = difflib.get_close_matches(word[:200], sorted(known)[:MAX_KNOWN], n=1)
    return close[0] if close else None


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """A hint with the nearest known word; empty when none is near."""
    found = nearest(word, known)
    return f"did you mean {found!r}?" if found is not None else ""
