"""TextSet: searches for many texts at once. Searching for many takes about as long as for some."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Sequence

FEW = 64
"""Up to this number, texts are searched one by one, which is quicker."""
START = 4
"""Length of the prefix by which texts are indexed; no text of a set is shorter."""
MOST_PROBES = 1 << 17
"""Comparisons of a text with one that may begin there, some 20 ms."""
Span = tuple[int, int]


class Probes:
    """How many are left for one look, at a text or at all texts of a value."""

    __slots__ = ("left",)

    def __init__(self) -> None:
        self.left = MOST_PROBES


class TextSet:
    """A set of texts that can be searched in another text."""

    __slots__ = ("_backwards", "_endings", "_lengths", "_sorted", "longest", "texts")

    def __init__(self) -> None:
        self.texts: dict[
            str, None
        ] = {}  # like the others, small while it is empty: most plugins have no secrets
        self.longest = 0
        self._lengths: dict[str, list[int]] = {}
        """The lengths of the texts by their prefix, the longest first."""
        self._sorted: Sequence[str] = ()
        self._backwards: Sequence[str] = ()
        """The texts sorted, and reversed and sorted; created when needed."""
        self._endings: Collection[str] = ()
        """The prefixes of the reversed texts."""

    def __len__(self) -> int:
        return len(self.texts)

    def add(self, texts: Iterable[str]) -> None:
        for text in texts:
            if len(text) < START or text in self.texts:
                continue
            self.texts[text] = None
            self.longest = max(self.longest, len(text))
            lengths = self._lengths.setdefault(text[:START], [])
            if len(text) not in lengths:
                lengths.append(len(text))
                lengths.sort(reverse=True)
        self._sorted = self._backwards = ()

    def is_in(self, searched: str, probes: Probes | None = None) -> bool:
        """Whether a text contains one of them."""
        if len(self.texts) > FEW:
            return next(self.spans(searched, probes), None) is not None
        return any(text in searched for text in self.texts)

    def spans(self, searched: str, probes: Probes | None = None) -> Iterator[Span]:
        """The parts of a text that contain them; they may overlap. The whole text, when that would take too
        many comparisons."""
        if len(self.texts) > FEW:
            yield from self._spans_of_many(searched, probes or Probes())
            return
        for text in self.texts:
            yield from _spans_of(text, searched)

    def _spans_of_many(self, searched: str, probes: Probes) -> Iterator[Span]:
        lengths, texts, size = self._lengths, self.texts, len(searched)
        first = last = -1  # a part that may go on
        for start in range(size - START + 1):
            if (begun := searched[start : start + START]) not in lengths:
                continue
            for length in lengths[begun]:
                stop = start + length
                if stop <= last:
                    break  # all from here on is found already
                probes.left -= 1
                if stop <= size and searched[start:stop] in texts:
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

    def holds_part(self, searched: str) -> bool:
        """Whether a text is a part of one of them."""
        return 0 < len(searched) <= self.longest and any(searched in text for text in self.texts)

    def ends_in(self, searched: str) -> int:
        """How many characters a text begins with that one of them ends with."""
        if not self._backwards:
            self._backwards = sorted(text[::-1] for text in self.texts)
            self._endings = {text[:START] for text in self._backwards}
        return _common(self._backwards, self._endings, searched[: self.longest][::-1])

    def begins_in(self, searched: str) -> int:
        """How many characters a text ends with that one of them begins with."""
        if not self._sorted:
            self._sorted = sorted(self.texts)
        return _common(self._sorted, self._lengths.keys(), searched[-self.longest :] if self.longest else "")


def _spans_of(text: str, searched: str) -> Iterator[Span]:
    """Where one text stands; spans that overlap are one. Of those only the last is looked for."""
    first = searched.find(text)
    while first >= 0:
        last = first
        while (further := searched.rfind(text, last + 1, last + 2 * len(text) - 1)) >= 0:
            last = further
        yield first, last + len(text)
        first = searched.find(text, last + len(text))


def _common(texts: Sequence[str], starts: Collection[str], searched: str) -> int:
    """The length of the longest end of a text that one of the sorted texts begins with.

    Most are seen not to be one by their first characters, by `starts`.
    """
    for start in range(len(searched)):
        if searched[start : start + START] not in starts and start + START <= len(searched):
            continue
        end = searched[start:]
        at = bisect_left(texts, end)
        if at < len(texts) and texts[at].startswith(end):
            return len(end)
    return 0
