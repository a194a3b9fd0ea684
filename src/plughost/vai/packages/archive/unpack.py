"""Unpacks an archive into a folder, with every file synced to disk before the folder is used."""

from __future__ import annotations

from pathlib import Path, PurePosixPath

from plughost._util import fsync
from plughost.vai.packages.archive.archive_file import ArchiveFile
from plughost.vai.packages.archive.legal_paths import to_disk
from plughost.vai.packages.errors import Unacceptable

READ_ONLY = 0o444
"""Files in a store are never written again; the user who runs plugins may be another one."""
PROGRAM = 0o555
DIRECTORY = 0o755


def unpack(layer: ArchiveFile, into: Path) -> None:
    """Unpacks all files into a new folder. The names were checked: none leads out of the folder."""
    fsync.make_folder(into, DIRECTORY)
    folders = {into}
    for name, member in layer.members.items():
        for parent in reversed(PurePosixPath(name).parents[:-1]):
            if (folder := into / to_disk(str(parent))) not in folders:
                fsync.make_folder(folder, DIRECTORY)
                folders.add(folder)
        mode = PROGRAM if member.executable else READ_ONLY
        if fsync.write_new(into / to_disk(name), layer.open(member), mode) != member.size:
            raise Unacceptable(f"{name!r} is cut short")
    for folder in folders:
        fsync.sync(folder)
