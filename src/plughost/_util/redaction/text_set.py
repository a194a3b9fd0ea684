"""TextSet: searches for many texts at once. Searching for many takes about as long as for some."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator

FEW = 64
"""Up to this number, texts are searched one by one, which is quicker."""
START = 4
"""Length of the prefix by which texts are indexed; no text of a set is shorter."""
Span = tuple[int, int]


class TextSet:
    """A set of texts that can be searched in another text."""

    __slots__ = ("_backwards", "_lengths", "_sorted", "longest", "texts")

    def __init__(self) -> None:
        self.texts: set[str] = set()
        self.longest = 0
        self._lengths: dict[str, list[int]] = {}
        """The lengths of the texts by their prefix."""
        self._sorted: list[str] = []
        self._backwards: list[str] = []
        """The texts sorted, and reversed and sorted; created when needed."""

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
        """Whether a text contains one of them."""
        if len(self.texts) > FEW:
            return next(self.places(said), None) is not None
        return any(text in said for text in self.texts)

    def places(self, said: str) -> Iterator[Span]:
        """The positions where a text contains them; they may overlap."""
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
