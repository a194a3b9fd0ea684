"""Texts that must not be shown: secrets given to a plugin, which may come back in anything it says.

They are hidden as they are, in base64 and hex, and however JSON, URLs, HTML and Python escape them, up to
three times over. A plugin that means to tell one can write it otherwise; this is for what careless code
prints.

A text is a stranger's, and may be made to take long. `text` and `value` look at so much and no more; what is
longer is hidden in slices, others having their turn in between (`json`, `everything`), or in a thread.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import msgspec

from plughost.base.cut_text import begun, ended
from plughost.base.json_pieces import SLICE, pieces
from plughost.base.spellings import PASSES, SHORTEST, forms, hex_forms, lower_hex
from plughost.base.text import Head, head
from plughost.base.text_set import Probes, Span, TextSet
from plughost.base.unescape import TRIGGER, Unescaped, unescaped

HIDDEN = "***"
NO_SECRET = 1
"""A text of so few characters is a sign, and would be everywhere."""
DEEPEST = 200
AT_ONCE = 64 << 10
"""Characters that `text` and `value` look at: 50 to 100 ms where all of them are escapes."""
HEAD = 16 << 10
"""Of a longer text only so many are shown."""
NUMBER = 4
"""What a number counts for among them."""
MOST_SECRETS = 10_000
"""Where more are learned, every text is hidden."""
LONGEST_SHAPED = 8192
"""Characters of a text that has a shape; of a longer one the beginning is hidden."""
_WORD = re.compile(r"\S+")
_JSON_TOKEN = re.compile(r'"(?:[^"\\]++|\\.)*+"|-?[0-9][0-9.eE+-]*+', re.S)
_NO_SHAPES: Mapping[str, re.Pattern[str]] = {}


class Hidden:
    """Grows with every secret that is given; what it has learned, it hides for good."""

    __slots__ = ("_hex", "_known", "_learned", "_shapes")

    def __init__(self) -> None:
        self._known = TextSet()
        self._hex = TextSet()
        """Those that are looked for in a text with its hex digits in lower case."""
        self._learned: set[str] = set()
        self._shapes: Mapping[str, re.Pattern[str]] = _NO_SHAPES

    def __repr__(self) -> str:
        return f"<Hidden: {len(self._learned) + len(self._shapes)} texts>"

    @property
    def _is_empty(self) -> bool:
        return not self._known and not self._shapes

    @property
    def _hides_all(self) -> bool:
        return len(self._learned) > MOST_SECRETS

    @property
    def longest(self) -> int:
        """Characters of the longest form that is looked for."""
        return max(self._known.longest, self._hex.longest)

    def learn(self, secrets: Iterable[str]) -> None:
        new = {secret for secret in secrets if len(secret) > NO_SECRET} - self._learned
        for secret in new:
            if self._hides_all:
                return
            self._learned.add(secret)
            if len(secret) < SHORTEST:
                self.learn_shape(rf"(?<!\w){re.escape(secret)}(?!\w)")
            else:
                self._known.add(forms(secret))
                self._hex.add(hex_forms(secret))

    def learn_shape(self, shape: str) -> None:
        """All texts that a regular expression describes, for what is made anew too often to be learned."""
        if shape not in self._shapes:
            self._shapes = {**self._shapes, shape: re.compile(shape)}

    def learn_from(self, other: Hidden) -> None:
        """All that another has learned."""
        if not other._learned <= self._learned:
            self._learned |= other._learned
            self._known.add(other._known.texts)
            self._hex.add(other._hex.texts)
        if not other._shapes.keys() <= self._shapes.keys():
            self._shapes = {**self._shapes, **other._shapes}

    def text(self, said: str, probes: Probes | None = None) -> str:
        """Two secrets may overlap: what belongs to either is left out. Of a very long text only the beginning
        is looked at, and shown. With `probes`, several texts have one bound for what may be looked at."""
        if self._is_empty:
            return said
        if self._hides_all:
            return HIDDEN
        if len(said) > AT_ONCE:
            return f"{self.head(head(said, HEAD))} ({len(said)} characters in all)"
        return _without(said, self._found(said, probes))

    def whole(self, said: str) -> str:
        """The same of a text of any length, all of it. It may take long: not for an event loop."""
        slices = self.slices()
        parts = (said[at : at + SLICE] for at in range(0, len(said), SLICE))
        return "".join([*(slices.feed(part) for part in parts), slices.feed("", final=True)])

    def is_in(self, parts: Iterable[str]) -> bool:
        """Whether `whole` would hide something of a text that comes in parts. It may take long, too."""
        if self._is_empty or self._hides_all:
            return self._hides_all
        slices, unseen = self.slices(), ""
        for part in parts:
            unseen += part
            if not unseen.startswith(shown := slices.feed(part)):
                return True
            unseen = unseen[len(shown) :]
        return slices.feed("", final=True) != unseen

    def slices(self) -> Sliced:
        """The same for a text that comes in slices."""
        return Sliced(self)

    def piece(self, said: str) -> str:
        """The same of a text that something was cut off, before it or after it.

        Of a secret that stood there a part is left. The end of one that has a shape looks like any word.
        """
        if self._is_empty:
            return said
        if self._hides_all:
            return HIDDEN
        if len(said) > AT_ONCE:
            return self.text(said)
        found = self._found(said) + self._parts_of(said, begun, ended)
        if self._shapes and (word := _WORD.match(said)):
            found.append(word.span())
        return _without(said, found)

    def head(self, said: Head) -> str:
        """The same of a text whose end may have been cut off."""
        if not said.is_cut:
            return self.text(said.unhidden)
        if self._is_empty or self._hides_all or len(said.unhidden) > AT_ONCE:
            return f"{self.text(said.unhidden)}…"
        found = self._found(said.unhidden) + self._parts_of(said.unhidden, ended)
        return f"{_without(said.unhidden, found)}…"

    def _parts_of(self, said: str, *ends: Callable[[TextSet, str], Iterator[Span]]) -> list[Span]:
        return [
            (start(first), stop(last))
            for text, start, stop in _passes(said)
            for known, part in ((self._known, text), (self._hex, lower_hex(text)))
            for parts in ends
            for first, last in parts(known, part)
        ]

    def _found(self, said: str, probes: Probes | None = None) -> list[Span]:
        probes = probes or Probes()
        found = [match.span() for shape in self._shapes.values() for match in shape.finditer(said)]
        if self._holds(said, PASSES, probes):
            for text, start, stop in _passes(said):
                found += [(start(first), stop(last)) for first, last in self.places(text, probes)]
        return found

    def _holds(self, said: str, passes: int, probes: Probes) -> bool:
        """Whether there is a form of a secret in it: that is seen sooner than where it is."""
        for _ in range(passes + 1):
            if self._known.is_in(said, probes) or self._hex.is_in(lower_hex(said), probes):
                return True
            if TRIGGER.search(said) is None:
                return False
            before, said = said, unescaped(said)
            if len(before) == len(said):
                return False
        return False

    def places(self, text: str, probes: Probes | None = None) -> Iterator[Span]:
        """Where forms of secrets stand in a text whose escapes are undone; they may overlap."""
        yield from self._known.places(text, probes)
        yield from self._hex.places(lower_hex(text), probes)

    def value(self, said: Any) -> Any:
        """The same of all texts in a JSON value, names and numbers too. What is too much for one look, all in
        all, is hidden."""
        return said if self._is_empty else self._value(said, 0, _Room())

    def _value(self, said: Any, depth: int, room: _Room) -> Any:
        if isinstance(said, str):
            return self.text(said, room.probes) if room.takes(min(len(said), AT_ONCE)) else HIDDEN
        if depth > DEEPEST:
            return HIDDEN
        if isinstance(said, dict):
            return {
                self._value(name, depth, room): self._value(inner, depth + 1, room)
                for name, inner in said.items()
            }
        if isinstance(said, list):
            return [self._value(inner, depth + 1, room) for inner in said]
        if type(said) in (int, float):
            return self._number(said) if room.takes(NUMBER) else HIDDEN
        return said

    def _number(self, said: float) -> Any:
        """Its digits may be a secret, or a part of them."""
        return HIDDEN if self._hides_all or self._known.is_in(repr(said)) else said

    async def everything(self, said: Any) -> Any:
        """What `value` does, of a JSON value of any size: others have their turn in between."""
        if self._is_empty:
            return said
        written = msgspec.json.encode(said)
        return msgspec.json.decode(await self.json(written, pieces(written)))

    async def json(self, written: bytes | memoryview, sizes: Iterable[int]) -> bytes:
        """The same of a large JSON document, in pieces of the given sizes: others have their turn in between.

        A piece holds whole strings and numbers; one that is longer than a slice is a string alone.
        """
        if self._is_empty:
            return bytes(written)
        shown, at = [], 0
        for size in sizes:
            text = str(written[at : at + size], "utf-8")
            at += size
            shown.append((await self._long(text) if size > SLICE else self._tokens(text)).encode())
            await asyncio.sleep(0)
        return b"".join(shown)

    def _tokens(self, text: str) -> str:
        # Strings are JSON here: one more pass than in their values. What is found across several is none.
        probes = Probes()
        if not self._shapes and not self._hides_all and not self._holds(text, PASSES + 1, probes):
            return text
        return _JSON_TOKEN.sub(lambda token: self._token(token, probes), text)

    def _token(self, token: re.Match[str], probes: Probes) -> str:
        said = msgspec.json.decode(token[0])
        shown = self.text(said, probes) if isinstance(said, str) else self._number(said)
        return token[0] if shown == said else msgspec.json.encode(shown).decode()

    async def _long(self, text: str) -> str:
        if text[0] != '"':  # a number of very many digits, or white space
            return self._tokens(text)
        said, slices, shown = msgspec.json.decode(text, type=str), self.slices(), []
        for at in range(0, len(said), SLICE):
            part = slices.feed(said[at : at + SLICE], final=at + SLICE >= len(said))
            shown.append(msgspec.json.encode(part).decode()[1:-1])
            await asyncio.sleep(0)
        return f'"{"".join(shown)}"'


class Sliced:
    """Hides secrets in a text that comes in slices, wherever it is cut: all that it returns, put together, is
    what `Hidden.text` makes of the whole."""

    def __init__(self, hidden: Hidden) -> None:
        self._hidden = hidden
        self._passes: list[Unescaped] = []
        self._text = ""
        """Not returned yet; it begins at `_at`."""
        self._at = 0
        self._before = ""
        self._end = 0
        """Up to where all is hidden."""
        self._found: list[Span] = []
        self._looked = 0
        """Up to where forms were looked for in the text itself, less what the next may begin with."""

    def feed(self, said: str, *, final: bool = False) -> str:
        """Take the next slice; what can be shown by now."""
        if self._hidden._hides_all:
            return HIDDEN if final else ""
        self._text += said
        sure = self._shaped(final=final)
        sure = min(sure, self._unpassed(said, final=final))
        kept = 0 if final else max(self._hidden.longest - 1, 0)
        first = max(self._looked - self._at, 0)
        self._found += [
            (self._at + first + start, self._at + first + stop)
            for start, stop in self._hidden.places(self._text[first:])
        ]
        self._looked = max(self._at + len(self._text) - kept, self._looked)
        return self._shown(max(min(sure, self._looked), self._at))

    def _unpassed(self, said: str, *, final: bool) -> int:
        """Look for forms in the text with its escapes undone. Up to where nothing more can be found in it."""
        if not self._passes and not TRIGGER.search(said):
            return self._at + len(self._text)
        if not self._passes:
            self._passes = [Unescaped() for _ in range(PASSES)]
            self._passes[0].begin(self._at)
            said = self._text
        kept = 0 if final else max(self._hidden.longest - 1, 0)
        for number, each in enumerate(self._passes):
            said = each.feed(said, final=final)
            for start, stop in self._hidden.places(each.text):
                span = self._mapped(number, each.at + start, each.at + stop)
                self._found.append(span)
            each.drop(each.at + max(len(each.text) - kept, 0))
        needed = self._passes[-1].at
        for each in reversed(self._passes):
            needed = min(needed, each.at)
            each.forget(needed)
            needed = each.start(needed)
        return needed

    def _mapped(self, number: int, start: int, stop: int) -> Span:
        for each in reversed(self._passes[: number + 1]):
            start, stop = each.start(start), each.stop(stop)
        return start, stop

    def _shaped(self, *, final: bool) -> int:
        """Look for what has a shape. Up to where that is done."""
        end = sure = self._at + len(self._text)
        if not self._hidden._shapes:
            return end
        sure = end if final else end - LONGEST_SHAPED
        for shape in self._hidden._shapes.values():
            # With the character before it: some shapes stand alone only.
            for match in shape.finditer(self._before + self._text, len(self._before)):
                start, stop = (self._at - len(self._before) + each for each in match.span())
                if start < sure:
                    self._found.append((start, stop))
        return sure

    def _shown(self, sure: int) -> str:
        """All before a position where no secret begins any more that is not found yet."""
        shown: list[str] = []
        done = self._at
        for start, stop in sorted({span for span in self._found if span[0] < sure}):
            if start >= self._end:
                shown += [self._text[max(done, self._end) - self._at : start - self._at], HIDDEN]
                done = start
            self._end = max(self._end, stop)
        if sure > self._end:
            shown.append(self._text[max(done, self._end) - self._at : sure - self._at])
        self._found = [span for span in self._found if span[0] >= sure]
        self._before = self._text[: sure - self._at][-1:] or self._before
        self._text = self._text[sure - self._at :]
        self._at = sure
        return "".join(shown)


def _passes(
    said: str, passes: int = PASSES
) -> Iterator[tuple[str, Callable[[int], int], Callable[[int], int]]]:
    """A text, and the same with its escapes undone once, twice …; and for each, where a character of it
    begins and ends in the text itself."""
    yield said, int, int
    undone: list[Unescaped] = []
    while len(undone) < passes and TRIGGER.search(said):
        each = Unescaped()
        said = each.feed(said, final=True)
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

        yield said, start, stop


def _without(said: str, found: list[Span]) -> str:
    if not found:
        return said
    shown, end = [], 0
    for start, stop in sorted(found):
        if start >= end:
            shown += [said[end:start], HIDDEN]
        end = max(end, stop)
    return "".join([*shown, said[end:]])


class _Room:
    """How much of a value may still be looked at."""

    __slots__ = ("_left", "probes")

    def __init__(self) -> None:
        self._left = 2 * AT_ONCE
        self.probes = Probes()

    def takes(self, characters: int) -> bool:
        self._left -= characters
        return self._left >= 0
