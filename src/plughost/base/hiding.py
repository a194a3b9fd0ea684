"""Texts that must not be shown: secrets given to a plugin, which may come back in anything it says.

They are hidden as they are and as JSON, a URL or base64 would write them. A plugin that means to tell one
can write it otherwise; this is for what careless code prints.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable
from typing import Any
from urllib.parse import quote, quote_plus

HIDDEN = "***"
SHORTEST = 4
"""A shorter text would be found in the middle of words."""
DEEPEST = 200


class Hidden:
    """Grows with every secret that is given; what it has learned, it hides for good."""

    __slots__ = ("_known", "_pattern")

    def __init__(self) -> None:
        self._known: set[str] = set()
        self._pattern: re.Pattern[str] | None = None

    def __repr__(self) -> str:
        return f"<Hidden: {len(self._known)} texts>"

    def learn(self, secrets: Iterable[str]) -> None:
        new = {spelling for secret in secrets for spelling in _spellings(secret)} - self._known
        if new:
            self._known |= new
            longest_first = sorted(self._known, key=len, reverse=True)
            self._pattern = re.compile("|".join(map(re.escape, longest_first)))

    def text(self, said: str) -> str:
        return said if self._pattern is None else self._pattern.sub(HIDDEN, said)

    def value(self, said: Any, depth: int = 0) -> Any:
        """The same of all texts in a JSON value, names too."""
        if self._pattern is None:
            return said
        if isinstance(said, str):
            return self._pattern.sub(HIDDEN, said)
        if depth > DEEPEST:
            return HIDDEN
        if isinstance(said, dict):
            return {self.value(name): self.value(inner, depth + 1) for name, inner in said.items()}
        if isinstance(said, list):
            return [self.value(inner, depth + 1) for inner in said]
        return said


def _spellings(secret: str) -> Iterable[str]:
    """A secret of several lines is also told line by line."""
    for part in {secret, *secret.splitlines()}:
        if len(part) >= SHORTEST:
            data = part.encode(errors="surrogatepass")
            yield part
            yield json.dumps(part)[1:-1]
            yield json.dumps(part, ensure_ascii=False)[1:-1]
            yield quote(data, safe="")
            yield quote_plus(data)
            yield base64.b64encode(data).decode().rstrip("=")
            yield base64.urlsafe_b64encode(data).decode().rstrip("=")
