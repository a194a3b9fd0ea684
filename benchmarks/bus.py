"""What goes over the snapshot bus: payloads with numbers, by which subscribers notice what is missing."""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Iterable
from typing import Any

TOPIC = "benchmark"


def numbered(number: int, size: int) -> bytes:
    """`size` bytes whose base64 begins with the number in decimal: a plugin need not decode it."""
    return b64decode(f"{number:08d}").ljust(size, b"\0")


def in_base64(number: int, size: int) -> str:
    return b64encode(numbered(number, size)).decode()


def publishing(count: int, size: int) -> dict[str, Any]:
    """The params of the C plugin's `publish`."""
    return {"topic": TOPIC, "payload": in_base64(0, size), "count": count}


def astray(heard: Iterable[dict[str, Any]], published: int) -> int:
    """0 if every event came once and in its turn, by what the C plugins answered to `heard`."""
    return sum(abs(published - one["events"]) + one["astray"] for one in heard)
