"""Files of a plugin's folder that the host itself reads: what a stranger may put in their place."""

from __future__ import annotations

import os
import subprocess
import sys

FILES = ("plughost.toml", "manifest.toml", "manifest.yaml", "vai-plugin.toml")

LOOKS = """
import sys
from pathlib import Path
from plughost import InvalidSpec, config
for folder in sys.argv[1:]:
    try:
        config.of_folder(Path(folder))
    except InvalidSpec as error:
        assert "not a regular file" in str(error), error
    print(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[4])
"""
"""Prints the number of the terminal that controls the process, after each folder."""


def test_a_terminal_in_place_of_a_manifest_does_not_become_the_hosts(tmp_path):
    """It would be hung up, and the host with it, by whoever has its other end."""
    master, slave = os.openpty()
    try:
        folders = [tmp_path / f"{number}" for number in range(len(FILES))]
        for folder, name in zip(folders, FILES, strict=True):
            folder.mkdir()
            (folder / name).symlink_to(os.ttyname(slave))
        os.close(slave)
        told = subprocess.run(
            [sys.executable, "-c", LOOKS, *map(str, folders)],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            start_new_session=True,  # as a service is started: without a terminal, and free to get one
            timeout=60,
        )
    finally:
        os.close(master)
    assert told.stdout.split() == ["0"] * len(FILES), told.stderr
