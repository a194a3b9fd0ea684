"""What a terminal sends, as keys.

The library's own reading fails at some sequences, which ends the program, and loses Alt on many keys.
Here whatever comes is a key or nothing, and Alt is Alt.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from textual import events
from textual._xterm_parser import XTermParser
from textual.keys import Keys

ESC = "\x1b"
_BEGINS = "[O]P^_X\x1b"
"""What may begin a longer sequence: only time tells."""
_EXTENDED = re.compile(r"\x1b\[([\d:]*);([\d:]*)((?:;[\d:]*)?[u~A-HPQRS])")
"""Of the kitty protocol: the key and its other names, modifiers and what happened to it, its text."""
_RELEASED = "3"


class KeyParser(XTermParser):
    def _sequence_to_key_events(self, sequence: str, alt: bool = False) -> Iterable[events.Key]:
        if len(sequence) == 2 and sequence[0] == ESC and sequence[1] not in _BEGINS:
            return self._with_alt(sequence[1])
        if alt:
            return self._with_alt(sequence)
        try:
            return [*super()._sequence_to_key_events(_simplified(sequence))]
        except (ValueError, OverflowError):  # a number that is no character's
            return [events.Key(Keys.Ignore, sequence)]

    def _with_alt(self, character: str) -> Iterator[events.Key]:
        for event in super()._sequence_to_key_events(character):
            yield events.Key(f"alt+{event.key}", event.character)


def _simplified(sequence: str) -> str:
    """Without a key's other names, and without those that are let go."""
    extended = _EXTENDED.fullmatch(sequence)
    if extended is None or ":" not in sequence:
        return sequence
    key, modifiers, rest = extended.groups()
    modifiers, _, happened = modifiers.partition(":")
    if happened == _RELEASED:
        raise ValueError(sequence)
    return f"{ESC}[{key.partition(':')[0]};{modifiers}{rest}"
