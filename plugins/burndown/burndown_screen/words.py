"""Numbers and names as people read them."""

from __future__ import annotations

from burndown_screen.usage import Bucket
from plughost_sdk.ainb import cells


def tokens(count: int) -> str:
    """At most six characters."""
    for unit in ("", "k", "M", "G", "T"):
        if count < 1000 or unit == "T":
            return f"{count:.0f}{unit}" if not unit or count >= 100 else f"{count:.1f}{unit}"
        count = count / 1000  # type: ignore[assignment]
    return ""


def cost(bucket: Bucket) -> str:
    """A question mark stands for what has no price."""
    if bucket.cost_usd is None:
        return "?" if bucket.call_count else "-"
    told = "<$0.01" if 0 < bucket.cost_usd < 0.005 else f"${bucket.cost_usd:,.2f}"
    return f"{told} + ?" if bucket.unpriced_calls else told


def many(count: int, what: str) -> str:
    """1 call, 2 calls"""
    return f"{count:,} {what}" if count != 1 else f"1 {what.removesuffix('s')}"


def plain(text: str) -> str:
    """Without anything that a terminal obeys."""
    return "".join(character if character.isprintable() else "·" for character in text)


def fit(text: str, width: int) -> str:
    """Cut to so many columns: a wide character takes two, a mark none."""
    found = cells(plain(text))
    if len(found) <= width:
        return "".join(found)
    cut = max(0, width - 1)
    kept = found[:cut] if found[cut] else [*found[: cut - 1], " "]  # of a wide one there is no half
    return "".join(kept) + "…"


def columns(text: str) -> int:
    return len(cells(text))


def pad(text: str, width: int) -> str:
    """Filled up to so many columns."""
    return text + " " * (width - columns(text))
