"""Parses the bytes of a terminal as keys.

Textual's own parser fails on some sequences, which ends the program, and loses Alt on many keys. Here any
input is a key or is ignored, and Alt is kept.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from textual import events
from textual._xterm_parser import XTermParser
from textual.keys import Keys

ESC = "\x1b"
_BEGINS = "[O]P^_X\x1b"
"""Characters after Escape that may begin a longer sequence: only a timeout tells."""
_EXTENDED = re.compile(r"\x1b\[([\d:]*);([\d:]*)((?:;[\d:]*)?[u~A-HPQRS])")
"""A sequence of the kitty protocol: the key and its alternates, modifiers and event type, its text."""
_RELEASED = "3"


class KeyParser(XTermParser):
    """Textual's parser, with unreadable sequences ignored and Alt kept."""

    def _sequence_to_key_events(self, sequence: str, alt: bool = False) -> Iterable[events.Key]:
        if len(sequence) == 2 and sequence[0] == ESC and sequence[1] not in _BEGINS:
            return self._with_alt(sequence[1])
        if alt:
            return self._with_alt(sequence)
        try:
            return [*super()._sequence_to_key_events(_simplified(sequence))]
        except (ValueError, OverflowError):  # a number that is not a code point
            return [events.Key(Keys.Ignore, sequence)]

    def _with_alt(self, character: str) -> Iterator[events.Key]:
        for event in super()._sequence_to_key_events(character):
            yield events.Key(f"alt+{event.key}", event.character)


def _simplified(sequence: str) -> str:
    """Drop a key's alternates; ValueError for the release of a key."""
    extended = _EXTENDED.fullmatch(sequence)
    if extended is None or ":" not in sequence:
        return sequence
    key, modifiers, rest = extended.groups()
    modifiers, _, event_type = modifiers.partition(":")
    if event_type == _RELEASED:
        raise ValueError(sequence)
    return f"{ESC}[{key.partition(':')[0]};{modifiers}{rest}"
