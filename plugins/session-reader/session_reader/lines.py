"""Which lines of a log can hold usage: told by a word in them, before anything is decoded."""

from __future__ import annotations

from collections.abc import Iterator


def whole(block: bytes) -> int:
    """Where the last whole line of a block ends."""
    return block.rfind(b"\n") + 1


def holding(block: bytes, end: int, words: tuple[bytes, ...]) -> Iterator[tuple[int, bytes]]:
    """The lines up to `end` that hold one of the words, each with its place in the block."""
    at = 0
    if len(words) == 1:  # most of what there is to read, and a third faster
        (word,) = words
        while (hit := block.find(word, at, end)) >= 0:
            start = block.rfind(b"\n", at, hit) + 1 or at
            at = block.find(b"\n", hit, end)
            yield start, block[start:at]
        return
    hits = [block.find(word, 0, end) for word in words]
    while found := [hit for hit in hits if hit >= 0]:
        hit = min(found)
        start = block.rfind(b"\n", at, hit) + 1 or at
        at = block.find(b"\n", hit, end)
        yield start, block[start:at]
        hits = [hit if hit < 0 or hit > at else block.find(words[n], at, end) for n, hit in enumerate(hits)]
