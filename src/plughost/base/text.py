"""What a plugin says, fit to be shown: a terminal must not obey it, and a line stays one line."""

from __future__ import annotations


def visible(text: str) -> str:
    return text if text.isprintable() else "".join(map(_visible, text))


def _visible(character: str) -> str:
    return (
        character
        if character.isprintable() or character == "\t"
        else character.encode("unicode_escape", "surrogatepass").decode()
    )
