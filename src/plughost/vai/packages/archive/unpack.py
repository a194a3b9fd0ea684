"""An archive becomes a folder, file by file, each on the disk before the folder is anybody's."""

from __future__ import annotations

from pathlib import Path, PurePosixPath

from plughost._util import fsync
from plughost.vai.packages.archive.archive_file import ArchiveFile
from plughost.vai.packages.archive.legal_paths import to_disk
from plughost.vai.packages.errors import Unacceptable

READ_ONLY = 0o444
"""Nothing in a store is ever written again; whoever runs plugins may be another user."""
PROGRAM = 0o555
DIRECTORY = 0o755


def unpack(layer: ArchiveFile, into: Path) -> None:
    """All files of an archive in a new folder. Its names have been checked: they are all below."""
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
