"""Redaction: secrets that were given to a plugin are replaced by *** in everything it says.

Secrets are found as they are, in base64 and hex, and however JSON, URLs, HTML and Python escape them, up to
three times over. This is for what careless code prints; a plugin that wants to leak a secret can encode it
otherwise.

A text is untrusted, and may be made to take long. `redact` and `redact_json` look at a limited size only;
larger texts are redacted in slices, with other tasks in between (`redact_json_async`, `redact_encoded_json`),
or in a thread (`redact_unbounded`).
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import msgspec

from plughost._util.redaction.cut_text import ends_cut, starts_cut
from plughost._util.redaction.json_pieces import SLICE, pieces
from plughost._util.redaction.secret_set import HIDDEN, SecretSet
from plughost._util.redaction.sliced import SlicedRedactor
from plughost._util.redaction.spellings import PASSES, lower_hex
from plughost._util.redaction.text_set import Probes, Span, TextSet
from plughost._util.redaction.unescape import TRIGGER, Unescaped
from plughost._util.text import TruncatedText, head

DEEPEST = 200
AT_ONCE = 64 << 10
"""Characters that `redact` and `redact_json` look at: 50 to 100 ms if all of them are escapes."""
HEAD = 16 << 10
"""Characters that are shown of a longer text."""
NUMBER = 4
"""Characters that a number counts for."""
_WORD = re.compile(r"\S+")
_JSON_TOKEN = re.compile(r'"(?:[^"\\]++|\\.)*+"|-?[0-9][0-9.eE+-]*+', re.S)


class Redactor:
    """Redacts secrets in texts and JSON. Secrets can be added at any time, and never removed."""

    __slots__ = ("_secrets",)

    def __init__(self) -> None:
        self._secrets = SecretSet()

    def __repr__(self) -> str:
        return f"<Redactor: {len(self._secrets)} texts>"

    @property
    def longest(self) -> int:
        """Characters of the longest form of a secret."""
        return self._secrets.longest

    def add(self, secrets: Iterable[str]) -> None:
        """Redact these secrets from now on."""
        self._secrets.add(secrets)

    def add_pattern(self, pattern: str) -> None:
        """Redact all matches of a regular expression, for secrets that are created too often to be added one
        by one."""
        self._secrets.add_pattern(pattern)

    def add_from(self, other: Redactor) -> None:
        """Add all secrets and patterns of another redactor."""
        self._secrets.update(other._secrets)

    def redact(self, text: str, probes: Probes | None = None) -> str:
        """Replace all secrets in a text by ***. Of a very long text only the beginning is searched and
        returned. With `probes`, several texts share one limit of comparisons."""
        if self._secrets.is_empty:
            return text
        if self._secrets.hides_all:
            return HIDDEN
        if len(text) > AT_ONCE:
            return f"{self.redact_truncated(head(text, HEAD))} ({len(text)} characters in all)"
        return _without(text, self._spans(text, probes))

    def redact_unbounded(self, text: str) -> str:
        """Redact all of a text of any length. It may take long: not for an event loop."""
        slices = self.slices()
        parts = (text[at : at + SLICE] for at in range(0, len(text), SLICE))
        return "".join([*(slices.feed(part) for part in parts), slices.feed("", final=True)])

    def has_secret(self, parts: Iterable[str]) -> bool:
        """Whether `redact_unbounded` would hide something of a text that comes in parts. It may take long,
        too."""
        if self._secrets.is_empty or self._secrets.hides_all:
            return self._secrets.hides_all
        slices, unseen = self.slices(), ""
        for part in parts:
            unseen += part
            if not unseen.startswith(shown := slices.feed(part)):
                return True
            unseen = unseen[len(shown) :]
        return slices.feed("", final=True) != unseen

    def slices(self) -> SlicedRedactor:
        """A redactor for a text that comes in slices."""
        return SlicedRedactor(self._secrets)

    def redact_fragment(self, text: str) -> str:
        """Redact a text that was cut at its beginning or end.

        Part of a secret may be left there. The end of a match of a pattern looks like any word.
        """
        if self._secrets.is_empty:
            return text
        if self._secrets.hides_all:
            return HIDDEN
        if len(text) > AT_ONCE:
            return self.redact(text)
        found = self._spans(text) + self._cut_spans(text, starts_cut, ends_cut)
        if self._secrets.patterns and (word := _WORD.match(text)):
            found.append(word.span())
        return _without(text, found)

    def redact_truncated(self, text: TruncatedText) -> str:
        """Redact a text whose end may have been cut off."""
        if not text.is_cut:
            return self.redact(text.unhidden)
        if self._secrets.is_empty or self._secrets.hides_all or len(text.unhidden) > AT_ONCE:
            return f"{self.redact(text.unhidden)}…"
        found = self._spans(text.unhidden) + self._cut_spans(text.unhidden, ends_cut)
        return f"{_without(text.unhidden, found)}…"

    def _cut_spans(self, text: str, *finders: Callable[[TextSet, str], Iterator[Span]]) -> list[Span]:
        return [
            (start(first), stop(last))
            for unescaped, start, stop in _passes(text)
            for forms, part in (
                (self._secrets.forms, unescaped),
                (self._secrets.hex_forms, lower_hex(unescaped)),
            )
            for find in finders
            for first, last in find(forms, part)
        ]

    def _spans(self, text: str, probes: Probes | None = None) -> list[Span]:
        probes = probes or Probes()
        found = [
            match.span() for pattern in self._secrets.patterns.values() for match in pattern.finditer(text)
        ]
        if self._secrets.contained_in(text, PASSES, probes):
            for unescaped, start, stop in _passes(text):
                found += [
                    (start(first), stop(last)) for first, last in self._secrets.spans(unescaped, probes)
                ]
        return found

    def redact_json(self, value: Any) -> Any:
        """Redact all strings, member names and numbers in a JSON value. What is beyond the size limit is
        hidden."""
        return value if self._secrets.is_empty else self._redact_value(value, 0, _Budget())

    def _redact_value(self, value: Any, depth: int, budget: _Budget) -> Any:
        if isinstance(value, str):
            return self.redact(value, budget.probes) if budget.takes(min(len(value), AT_ONCE)) else HIDDEN
        if depth > DEEPEST:
            return HIDDEN
        if isinstance(value, dict):
            return {
                self._redact_value(name, depth, budget): self._redact_value(inner, depth + 1, budget)
                for name, inner in value.items()
            }
        if isinstance(value, list):
            return [self._redact_value(inner, depth + 1, budget) for inner in value]
        if type(value) in (int, float):
            return self._redact_number(value) if budget.takes(NUMBER) else HIDDEN
        return value

    def _redact_number(self, number: float) -> Any:
        """A number, hidden if its digits contain a secret."""
        return HIDDEN if self._secrets.hides_all or self._secrets.forms.is_in(repr(number)) else number

    async def redact_json_async(self, value: Any) -> Any:
        """Redact a JSON value of any size, with other tasks running in between."""
        if self._secrets.is_empty:
            return value
        written = msgspec.json.encode(value)
        return msgspec.json.decode(await self.redact_encoded_json(written, pieces(written)))

    async def redact_encoded_json(self, document: bytes | memoryview, sizes: Iterable[int]) -> bytes:
        """Redact a large JSON document, in pieces of the given sizes, with other tasks running in between.

        A piece holds whole strings and numbers; one that is longer than a slice is a string alone.
        """
        if self._secrets.is_empty:
            return bytes(document)
        shown, at = [], 0
        for size in sizes:
            text = str(document[at : at + size], "utf-8")
            at += size
            shown.append(
                (await self._redact_long_string(text) if size > SLICE else self._redact_tokens(text)).encode()
            )
            await asyncio.sleep(0)
        return b"".join(shown)

    def _redact_tokens(self, text: str) -> str:
        # Strings are JSON here: one more pass than in their values. What is found across several is none.
        probes = Probes()
        if (
            not self._secrets.patterns
            and not self._secrets.hides_all
            and not self._secrets.contained_in(text, PASSES + 1, probes)
        ):
            return text
        return _JSON_TOKEN.sub(lambda token: self._redact_token(token, probes), text)

    def _redact_token(self, token: re.Match[str], probes: Probes) -> str:
        value = msgspec.json.decode(token[0])
        shown = self.redact(value, probes) if isinstance(value, str) else self._redact_number(value)
        return token[0] if shown == value else msgspec.json.encode(shown).decode()

    async def _redact_long_string(self, string: str) -> str:
        if string[0] != '"':  # a number of very many digits, or white space
            return self._redact_tokens(string)
        text, slices, shown = msgspec.json.decode(string, type=str), self.slices(), []
        for at in range(0, len(text), SLICE):
            part = slices.feed(text[at : at + SLICE], final=at + SLICE >= len(text))
            shown.append(msgspec.json.encode(part).decode()[1:-1])
            await asyncio.sleep(0)
        return f'"{"".join(shown)}"'


def _passes(
    text: str, passes: int = PASSES
) -> Iterator[tuple[str, Callable[[int], int], Callable[[int], int]]]:
    """A text, and the text with its escapes undone once, twice …; with functions that map a position in each
    to the beginning and end of that character in the original text."""
    yield text, int, int
    undone: list[Unescaped] = []
    while len(undone) < passes and TRIGGER.search(text):
        each = Unescaped()
        text = each.feed(text, final=True)
        if not each.changed:
            return
        undone.insert(0, each)
        layers = tuple(undone)

        def start(at: int, layers: tuple[Unescaped, ...] = layers) -> int:
            for layer in layers:
                at = layer.start(at)
            return at

        def stop(at: int, layers: tuple[Unescaped, ...] = layers) -> int:
            for layer in layers:
                at = layer.stop(at)
            return at

        yield text, start, stop


def _without(text: str, found: list[Span]) -> str:
    if not found:
        return text
    shown, end = [], 0
    for start, stop in sorted(found):
        if start >= end:
            shown += [text[end:start], HIDDEN]
        end = max(end, stop)
    return "".join([*shown, text[end:]])


class _Budget:
    """The number of characters of a value that may still be searched."""

    __slots__ = ("_left", "probes")

    def __init__(self) -> None:
        self._left = 2 * AT_ONCE
        self.probes = Probes()

    def takes(self, characters: int) -> bool:
        self._left -= characters
        return self._left >= 0
