"""Texts that must not be shown: secrets given to a plugin, which may come back in anything it says.

They are hidden as they are and as JSON, a URL or base64 would write them. A plugin that means to tell one
can write it otherwise; this is for what careless code prints.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any
from urllib.parse import quote, quote_plus

HIDDEN = "***"
SHORTEST = 4
"""A shorter text is found in the middle of words, so it is hidden only where it stands alone."""
NO_SECRET = 1
"""A text of so few characters is a sign, and would be everywhere."""
DEEPEST = 200
_WORD = re.compile(r"\S+")
_NO_SHAPES: Mapping[str, re.Pattern[str]] = {}


class Hidden:
    """Grows with every secret that is given; what it has learned, it hides for good."""

    __slots__ = ("_known", "_shapes")

    def __init__(self) -> None:
        self._known: frozenset[str] = frozenset()
        self._shapes: Mapping[str, re.Pattern[str]] = _NO_SHAPES

    def __repr__(self) -> str:
        return f"<Hidden: {len(self._known) + len(self._shapes)} texts>"

    def learn(self, secrets: Iterable[str]) -> None:
        for secret in secrets:
            for spelling in _spellings(secret):
                if len(spelling) >= SHORTEST:
                    self._known |= {spelling}
                elif len(spelling) > NO_SECRET:
                    self.learn_shape(rf"(?<!\w){re.escape(spelling)}(?!\w)")

    def learn_shape(self, shape: str) -> None:
        """All texts that a regular expression describes, for what is made anew too often to be learned."""
        if shape not in self._shapes:
            self._shapes = {**self._shapes, shape: re.compile(shape)}

    def learn_from(self, other: Hidden) -> None:
        """All that another has learned."""
        if other._known or other._shapes:
            self._known |= other._known
            self._shapes = {**self._shapes, **other._shapes}

    def text(self, said: str) -> str:
        """Two secrets may overlap: what belongs to either is left out."""
        return _without(said, self._found(said))

    def piece(self, said: str) -> str:
        """The same of a text that something was cut off, before it or after it.

        Of a secret that stood there a part is left. The end of one that has a shape looks like any word.
        """
        found = self._found(said)
        for known in self._known:
            found += _parts(known, said)
        if self._shapes and (word := _WORD.match(said)):
            found.append(word.span())
        return _without(said, found)

    def _found(self, said: str) -> list[tuple[int, int]]:
        found = [span for known in self._known if known in said for span in _places(known, said)]
        for shape in self._shapes.values():
            found += [match.span() for match in shape.finditer(said)]
        return found

    def value(self, said: Any, depth: int = 0) -> Any:
        """The same of all texts in a JSON value, names and numbers too."""
        if not self._known and not self._shapes:
            return said
        if isinstance(said, str):
            return self.text(said)
        if depth > DEEPEST:
            return HIDDEN
        if isinstance(said, dict):
            return {self.value(name): self.value(inner, depth + 1) for name, inner in said.items()}
        if isinstance(said, list):
            return [self.value(inner, depth + 1) for inner in said]
        if type(said) is int and str(said) in self._known:
            return HIDDEN
        return said


def _without(said: str, found: list[tuple[int, int]]) -> str:
    if not found:
        return said
    shown, end = [], 0
    for start, stop in sorted(found):
        if start >= end:
            shown += [said[end:start], HIDDEN]
        end = max(end, stop)
    return "".join([*shown, said[end:]])


def _parts(known: str, said: str) -> Iterator[tuple[int, int]]:
    """Where a text that was cut begins with the end of a secret, or ends with its beginning."""
    if said and said in known:
        yield 0, len(said)
        return
    sizes = range(min(len(known) - 1, len(said)), 0, -1)
    if size := next((size for size in sizes if known.endswith(said[:size])), 0):
        yield 0, size
    if size := next((size for size in sizes if known.startswith(said[-size:])), 0):
        yield len(said) - size, len(said)


def _places(known: str, said: str) -> Iterator[tuple[int, int]]:
    start = said.find(known)
    while start >= 0:
        yield start, start + len(known)
        start = said.find(known, start + len(known))


def _spellings(secret: str) -> Iterable[str]:
    """A secret of several lines is also told line by line, where a line is long enough to be one."""
    for part in {secret, *(line for line in secret.splitlines() if len(line) >= SHORTEST)}:
        data = part.encode(errors="surrogatepass")
        yield part
        yield repr(part)[1:-1]
        yield json.dumps(part)[1:-1]
        yield json.dumps(part, ensure_ascii=False)[1:-1]
        yield quote(data, safe="")
        yield quote_plus(data)
        yield base64.b64encode(data).decode().rstrip("=")
        yield base64.urlsafe_b64encode(data).decode().rstrip("=")
