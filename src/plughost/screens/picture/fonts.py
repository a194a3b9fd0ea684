"""Monospace fonts of this machine."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

from plughost.errors import InvalidSpec

FOLDERS = ("/usr/share/fonts", "/usr/local/share/fonts", "~/.local/share/fonts", "~/.fonts")


class Family(NamedTuple):
    """File names of a family; a style that it lacks is drawn in the regular one."""

    regular: str
    bold: str = ""
    italic: str = ""


KNOWN = (
    Family("DejaVuSansMono.ttf", "DejaVuSansMono-Bold.ttf", "DejaVuSansMono-Oblique.ttf"),
    Family("LiberationMono-Regular.ttf", "LiberationMono-Bold.ttf", "LiberationMono-Italic.ttf"),
    Family("NotoSansMono-Regular.ttf", "NotoSansMono-Bold.ttf"),
    Family("UbuntuMono-R.ttf", "UbuntuMono-B.ttf", "UbuntuMono-RI.ttf"),
    Family("FreeMono.ttf", "FreeMonoBold.ttf", "FreeMonoOblique.ttf"),
)


def find(folders: tuple[str, ...] = FOLDERS) -> Family:
    """The first family that is installed, as paths."""
    there = {
        name: os.path.join(place, name)
        for folder in folders
        for place, _, names in os.walk(Path(folder).expanduser())
        for name in names
    }
    for family in KNOWN:
        if family.regular in there:
            return Family(*(there.get(name, "") for name in family))
    raise InvalidSpec(
        "there is no monospace font to draw with",
        hint="install one (Debian: apt-get install fonts-dejavu-core), or name a file with --font",
    )
