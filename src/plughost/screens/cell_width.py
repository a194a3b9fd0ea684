"""The displayed text of a cell's symbol, and its width in columns.

Only what all terminals agree on is let through: a printable character of one or two columns, with a few
combining marks. A control sequence, or a character whose width terminals measure differently, could move
everything behind it.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

from rich.cells import get_character_cell_size

REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
LONGEST = 16
"""Characters of a symbol that are looked at."""
MOST_MARKS = 3
DISPUTED = (
    (0x2630, 0x2637),
    (0x268A, 0x268F),
    (0x3248, 0x324F),
    (0x4DC0, 0x4DFF),
    (0x1D300, 0x1D356),
    (0x1D360, 0x1D376),
)
"""Trigrams, hexagrams, counting rods and circled numbers: one column in some terminals, two in others.
Unicode 16 made most of them wide, which were narrow before; the C library differs on the rest."""
_FIRST_DISPUTED = chr(DISPUTED[0][0])


class DisplayText(NamedTuple):
    """Text that is safe to display, and its width in columns."""

    text: str
    columns: int


SPACE = DisplayText(" ", 1)
UNKNOWN = DisplayText(REPLACEMENT, 1)


def display_text(symbol: str) -> DisplayText:
    """A symbol of any content as one or two columns of text that is safe for every terminal."""
    return _cached_display_text(symbol[:LONGEST])


@lru_cache(maxsize=4096)
def _cached_display_text(symbol: str) -> DisplayText:
    symbol = unicodedata.normalize("NFC", symbol)
    first = symbol[:1]
    if not first or unicodedata.category(first) == "Zs":
        return SPACE
    if _is_flag_letter(first):  # terminals draw a pair as a flag, as two letters, or four columns wide
        letters = [chr(ord(each) - 0x1F1E6 + ord("A")) for each in symbol[:2] if _is_flag_letter(each)]
        return DisplayText("".join(letters), len(letters))
    columns = _columns(first)
    if columns not in (1, 2) or not _stands_alone(first) or _is_disputed(first):
        return UNKNOWN
    marks = ""
    for each in symbol[1:]:
        if not _is_mark(each) or len(marks) == MOST_MARKS:
            break
        marks += each
    return DisplayText(first + marks, columns)


def columns_of(text: str) -> Iterator[DisplayText]:
    """Splits displayable text into characters, each with its combining marks and its width."""
    start = 0
    for end in range(1, len(text) + 1):
        if end == len(text) or _columns(text[end]):
            yield DisplayText(text[start:end], _columns(text[start]))
            start = end


def _columns(character: str) -> int:
    """The width of a character. A disputed one is not shown as it is: its replacement takes one column."""
    return 1 if _is_disputed(character) else get_character_cell_size(character)


def _is_disputed(character: str) -> bool:
    return character >= _FIRST_DISPUTED and any(first <= ord(character) <= last for first, last in DISPUTED)


def _stands_alone(character: str) -> bool:
    category = unicodedata.category(character)
    return category == "Co" or (character.isprintable() and category[0] != "M")


def _is_mark(character: str) -> bool:
    """Whether it is a combining mark, drawn onto the character before it. Variation selectors are not: they
    may change the width."""
    return (
        unicodedata.category(character) in ("Mn", "Me")
        and get_character_cell_size(character) == 0
        and "VARIATION SELECTOR" not in unicodedata.name(character, "VARIATION SELECTOR")
    )


def _is_flag_letter(character: str) -> bool:
    return "\U0001f1e6" <= character <= "\U0001f1ff"
