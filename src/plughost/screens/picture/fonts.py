"""Finds a monospace font that is installed on this machine."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

from plughost.errors import InvalidSpec

FOLDERS = ("/usr/share/fonts", "/usr/local/share/fonts", "~/.local/share/fonts", "~/.fonts")


class FontFamily(NamedTuple):
    """File names of a font family; a style that it lacks is drawn in the regular one."""

    regular: str
    bold: str = ""
    italic: str = ""


KNOWN = (
    FontFamily("DejaVuSansMono.ttf", "DejaVuSansMono-Bold.ttf", "DejaVuSansMono-Oblique.ttf"),
    FontFamily("LiberationMono-Regular.ttf", "LiberationMono-Bold.ttf", "LiberationMono-Italic.ttf"),
    FontFamily("NotoSansMono-Regular.ttf", "NotoSansMono-Bold.ttf"),
    FontFamily("UbuntuMono-R.ttf", "UbuntuMono-B.ttf", "UbuntuMono-RI.ttf"),
    FontFamily("FreeMono.ttf", "FreeMonoBold.ttf", "FreeMonoOblique.ttf"),
)


def find_font(folders: tuple[str, ...] = FOLDERS) -> FontFamily:
    """The first known family that is installed, as paths; InvalidSpec when there is none."""
    there = {
        name: os.path.join(place, name)
        for folder in folders
        for place, _, names in os.walk(Path(folder).expanduser())
        for name in names
    }
    for family in KNOWN:
        if family.regular in there:
            return FontFamily(*(there.get(name, "") for name in family))
    raise InvalidSpec(
        "there is no monospace font to draw with",
        hint="install one (Debian: apt-get install fonts-dejavu-core), or name a file with --font",
    )
