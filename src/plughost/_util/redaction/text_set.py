"""A set of texts, and where they stand in another text. To look for many takes about as long as for some."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator

FEW = 64
"""So many are looked for one by one, which is quicker."""
START = 4
"""Characters by which one of many is found; no text of a set is shorter."""
Span = tuple[int, int]


class TextSet:
    __slots__ = ("_backwards", "_lengths", "_sorted", "longest", "texts")

    def __init__(self) -> None:
        self.texts: set[str] = set()
        self.longest = 0
        self._lengths: dict[str, list[int]] = {}
        """By how texts begin, how long those are that begin so."""
        self._sorted: list[str] = []
        self._backwards: list[str] = []
        """The texts in order, and each of them backwards: made when they are asked for."""

    def __len__(self) -> int:
        return len(self.texts)

    def add(self, texts: Iterable[str]) -> None:
        for text in texts:
            if len(text) < START or text in self.texts:
                continue
            self.texts.add(text)
            self.longest = max(self.longest, len(text))
            lengths = self._lengths.setdefault(text[:START], [])
            if len(text) not in lengths:
                lengths.append(len(text))
        self._sorted = self._backwards = []

    def is_in(self, said: str) -> bool:
        """Whether one of them stands in a text."""
        if len(self.texts) > FEW:
            return next(self.places(said), None) is not None
        return any(text in said for text in self.texts)

    def places(self, said: str) -> Iterator[Span]:
        """Where they stand in a text; they may overlap."""
        if len(self.texts) > FEW:
            yield from self._places_of_many(said)
            return
        for text in self.texts:
            start = said.find(text)
            while start >= 0:
                yield start, start + len(text)
                start = said.find(text, start + 1)

    def _places_of_many(self, said: str) -> Iterator[Span]:
        lengths, texts = self._lengths, self.texts
        for start in range(len(said) - START + 1):
            if (begun := said[start : start + START]) in lengths:
                for length in lengths[begun]:
                    if start + length <= len(said) and said[start : start + length] in texts:
                        yield start, start + length

    def holds_part(self, said: str) -> bool:
        """Whether a text is a part of one of them."""
        return 0 < len(said) <= self.longest and any(said in text for text in self.texts)

    def ends_in(self, said: str) -> int:
        """How many characters a text begins with that one of them ends with."""
        if not self._backwards:
            self._backwards = sorted(text[::-1] for text in self.texts)
        return _common(self._backwards, said[: self.longest][::-1])

    def begins_in(self, said: str) -> int:
        """How many characters a text ends with that one of them begins with."""
        if not self._sorted:
            self._sorted = sorted(self.texts)
        return _common(self._sorted, said[-self.longest :] if self.longest else "")


def _common(texts: list[str], said: str) -> int:
    """The length of the longest end of a text that one of the sorted texts begins with."""
    for start in range(len(said)):
        end = said[start:]
        at = bisect_left(texts, end)
        if at < len(texts) and texts[at].startswith(end):
            return len(end)
    return 0
