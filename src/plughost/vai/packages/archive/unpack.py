"""An archive becomes a folder, file by file, each on the disk before the folder is anybody's."""

from __future__ import annotations

from pathlib import Path, PurePosixPath

from plughost.packages import disk
from plughost.packages.errors import Unacceptable
from plughost.packages.layer import Layer
from plughost.packages.names import to_disk

READ_ONLY = 0o444
"""Nothing in a store is ever written again; whoever runs plugins may be another user."""
PROGRAM = 0o555
DIRECTORY = 0o755


def unpack(layer: Layer, into: Path) -> None:
    """All files of an archive in a new folder. Its names have been checked: they are all below."""
    disk.make_folder(into, DIRECTORY)
    folders = {into}
    for name, member in layer.members.items():
        for parent in reversed(PurePosixPath(name).parents[:-1]):
            if (folder := into / to_disk(str(parent))) not in folders:
                disk.make_folder(folder, DIRECTORY)
                folders.add(folder)
        mode = PROGRAM if member.executable else READ_ONLY
        if disk.write_new(into / to_disk(name), layer.open(member), mode) != member.size:
            raise Unacceptable(f"{name!r} is cut short")
    for folder in folders:
        disk.sync(folder)
