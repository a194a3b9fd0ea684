"""A set of texts, and where they stand in another text. To look for many takes about as long as for some."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator

FEW = 64
"""So many are looked for one by one, which is quicker."""
START = 4
"""Characters by which one of many is found; no text of a set is shorter."""
MOST_PROBES = 1 << 17
"""Texts that are compared with the places where one of them may begin, some 20 ms."""
Span = tuple[int, int]


class Probes:
    """How many are left for one look, at a text or at all texts of a value."""

    __slots__ = ("left",)

    def __init__(self) -> None:
        self.left = MOST_PROBES


class TextSet:
    __slots__ = ("_backwards", "_endings", "_lengths", "_sorted", "longest", "texts")

    def __init__(self) -> None:
        self.texts: set[str] = set()
        self.longest = 0
        self._lengths: dict[str, list[int]] = {}
        """By how texts begin, how long those are that begin so, the longest first."""
        self._sorted: list[str] = []
        self._backwards: list[str] = []
        """The texts in order, and each of them backwards: made when they are asked for."""
        self._endings: set[str] = set()
        """How those begin that are backwards."""

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
                lengths.sort(reverse=True)
        self._sorted = self._backwards = []

    def is_in(self, said: str, probes: Probes | None = None) -> bool:
        """Whether one of them stands in a text."""
        if len(self.texts) > FEW:
            return next(self.places(said, probes), None) is not None
        return any(text in said for text in self.texts)

    def places(self, said: str, probes: Probes | None = None) -> Iterator[Span]:
        """All of a text where they stand, in parts that may overlap.

        When too many places had to be looked at, that is the whole text.
        """
        if len(self.texts) > FEW:
            yield from self._places_of_many(said, probes or Probes())
            return
        for text in self.texts:
            yield from _places_of(text, said)

    def _places_of_many(self, said: str, probes: Probes) -> Iterator[Span]:
        lengths, texts, size = self._lengths, self.texts, len(said)
        first = last = -1  # a part that may go on
        for start in range(size - START + 1):
            if (begun := said[start : start + START]) not in lengths:
                continue
            for length in lengths[begun]:
                stop = start + length
                if stop <= last:
                    break  # all from here on is found already
                probes.left -= 1
                if stop <= size and said[start:stop] in texts:
                    if start >= last >= 0:
                        yield first, last
                    if start >= last:
                        first = start
                    last = stop
                    break
            if probes.left < 0:
                yield 0, size
                return
        if last >= 0:
            yield first, last

    def holds_part(self, said: str) -> bool:
        """Whether a text is a part of one of them."""
        return 0 < len(said) <= self.longest and any(said in text for text in self.texts)

    def ends_in(self, said: str) -> int:
        """How many characters a text begins with that one of them ends with."""
        if not self._backwards:
            self._backwards = sorted(text[::-1] for text in self.texts)
            self._endings = {text[:START] for text in self._backwards}
        return _common(self._backwards, self._endings, said[: self.longest][::-1])

    def begins_in(self, said: str) -> int:
        """How many characters a text ends with that one of them begins with."""
        if not self._sorted:
            self._sorted = sorted(self.texts)
        return _common(self._sorted, self._lengths.keys(), said[-self.longest :] if self.longest else "")


def _places_of(text: str, said: str) -> Iterator[Span]:
    """Where one text stands; places that overlap are one. Of those only the last is looked for."""
    first = said.find(text)
    while first >= 0:
        last = first
        while (further := said.rfind(text, last + 1, last + 2 * len(text) - 1)) >= 0:
            last = further
        yield first, last + len(text)
        first = said.find(text, last + len(text))


def _common(texts: list[str], starts: Collection[str], said: str) -> int:
    """The length of the longest end of a text that one of the sorted texts begins with.

    Most are seen not to be one by their first characters, by `starts`.
    """
    for start in range(len(said)):
        if said[start : start + START] not in starts and start + START <= len(said):
            continue
        end = said[start:]
        at = bisect_left(texts, end)
        if at < len(texts) and texts[at].startswith(end):
            return len(end)
    return 0
