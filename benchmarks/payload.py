"""What is sent, by the size of its JSON."""

from __future__ import annotations

SIZES = {"100 B": 100, "64 KB": 64 << 10, "1 MB": 1 << 20}


def params(size: int) -> dict[str, str]:
    """Params whose compact JSON has `size` bytes."""
    return {"text": "x" * (size - len('{"text":""}'))}


def line(size: int) -> bytes:
    """A line of `size` bytes, for those who know no JSON."""
    return b"x" * (size - 1) + b"\n"
