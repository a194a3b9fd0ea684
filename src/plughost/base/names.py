"""The grammar of plugin names, the same wherever a name comes from: file, manifest, program or command line.

Names are shown, logged, recorded and used in paths, so each is plain text on one line that no terminal, shell
or file system takes for anything else. Every contract's own names fit: kaged's `notes`, vai's `acme/hello`,
and `acme/hello:greet#1` for the process of one export.
"""

from __future__ import annotations

import re

from plughost.base.errors import InvalidSpec
from plughost.base.text import brief

LONGEST = 255
_NAME = re.compile(r"{0}(?:/{0})*".format(r"[\w@](?:[\w.@:#+~ -]*[\w.@:#+~-])?"))
EXPECTED = (
    f"a plugin's name has 1 to {LONGEST} letters, digits and . _ - + @ : # ~ or spaces inside, "
    "begins with a letter, a digit, _ or @, and may have parts of that kind with / between them"
)


def wrong_name(name: str) -> str | None:
    """Why a plugin cannot be called that; None when it can."""
    if len(name) <= LONGEST and _NAME.fullmatch(name):
        return None
    return f"{brief(name)} cannot be a plugin's name: {EXPECTED}"


def check_name(name: str) -> None:
    """InvalidSpec for what cannot be a plugin's name."""
    if (why := wrong_name(name)) is not None:
        raise InvalidSpec(why, hint="rename it; a bare command on the command line gets a name with --name")
