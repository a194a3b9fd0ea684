"""Splits JSON documents into pieces. No piece begins or ends inside a string; a long string is a piece of its
own."""

from __future__ import annotations

import re

SLICE = 8 << 10
"""Characters that are searched before other tasks have their turn."""
_TOKEN = re.compile(rb'"(?:[^"\\]++|\\.)*+"|[^"]{1,4000},|[^"]{1,4000}', re.S)


def pieces(document: bytes) -> list[int]:
    """Sizes of the pieces of a JSON document."""
    sizes, size = [], 0
    for token in _TOKEN.finditer(document):
        length = token.end() - token.start()
        if size and size + length > SLICE:
            sizes.append(size)
            size = 0
        size += length
    return [*sizes, size] if size else sizes
