"""The grammar of plugin names. It is the same wherever a name comes from: file, manifest, program or command
line.

Names are shown, logged, recorded and used in paths, so each is plain text on one line that no terminal, shell
or file system takes for anything else. Every contract's own names fit: kaged's `notes`, vai's `acme/hello`,
and `acme/hello:greet#1` for the process of one export. Lines of output read `NAME#GENERATION error: text`, so
no name has a `#` or `: ` in it by which it could pass for the beginning of another plugin's line.
"""

from __future__ import annotations

import re
import unicodedata

from plughost._util.text import truncate
from plughost.errors import InvalidSpec

MAX_NAME = 255
_PART = r"[\w@](?:(?:[\w.@+~ -]|:(?! ))*[\w.@:+~-])?"
_NAME = re.compile(rf"{_PART}(?:/{_PART})*(?:#[0-9]+)?")
_JAMO = re.compile("[\u1100-\u11ff\ua960-\ua97f\ud7b0-\ud7ff]")
"""Conjoining Jamo, the parts of Hangul syllables: two of them are fillers, and most have no width of their
own. A syllable in its usual form has none of them."""
EXPECTED = (
    f"use 1 to {MAX_NAME} letters, digits, spaces and . _ - + @ : ~, starting with a letter, a digit, "
    "_ or @, without a space at the end or after a colon; several such parts can be joined with /, and # "
    "with a number can follow; letters must be visible and in Unicode NFKC form"
)


def name_problem(name: str) -> str | None:
    """Why `name` is not a valid plugin name; None when it is valid."""
    if len(name) <= MAX_NAME and _NAME.fullmatch(name) and _is_visible(name):
        return None
    return f"{truncate(name)} is not a valid plugin name: {EXPECTED}"


def _is_visible(name: str) -> bool:
    """Whether no letter is invisible or looks like another. The grammar excludes marks and format characters;
    NFKC excludes variants, and turns the filler letters into conjoining Jamo."""
    return name.isascii() or (unicodedata.normalize("NFKC", name) == name and not _JAMO.search(name))


def check_name(name: str) -> None:
    """Raise InvalidSpec for an invalid plugin name."""
    if (why := name_problem(name)) is not None:
        raise InvalidSpec(why, hint="rename it; for a bare command on the command line, use --name")
