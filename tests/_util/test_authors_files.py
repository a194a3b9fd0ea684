"""Files of a plugin's folder that the host itself reads: what a stranger may put in their place."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import plughost
from plughost import config
from plughost.sandbox.untrusted_temp_dir import READABLE, temporary_folder

FILES = ("plughost.toml", "manifest.toml", "manifest.yaml", "vai-plugin.toml")

LOOKS = """
import sys
from pathlib import Path
from plughost import InvalidSpec, config
for folder in sys.argv[1:]:
    try:
        config.load_folder(Path(folder))
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


OWN = """
[plugins.p]
contract = "mcptest"
command = ["python3", "main.py"]
env = { API_KEY = "the operator's own" }
"""
KAGED = """
name: p
version: 1.0.0
kaged_api: 1
description: The operator's own
command: [python3, main.py]
methods: [p.run]
env: { API_KEY: the operator's own }
"""


@pytest.mark.parametrize(("name", "text"), [("plughost.toml", OWN), ("manifest.yaml", KAGED)])
def test_a_link_to_a_private_file_gives_a_plugin_nothing_of_it(tmp_path, name, text):
    private, folder = tmp_path / "private", tmp_path / "downloaded"
    for each in (private, folder):
        each.mkdir()
    (private / name).write_text(text)
    (private / name).chmod(0o600)
    (folder / name).symlink_to(private / name)
    with pytest.raises(plughost.InvalidConfig) as caught:
        config.load_folder(folder)
    assert "that other users cannot read" in caught.value.message
    assert config.load_folder(private).name == "p"


@pytest.mark.parametrize("name", ["manifest.toml", "vai-plugin.toml"])
def test_no_manifest_is_read_through_a_link_to_a_private_file(tmp_path, name):
    (tmp_path / "private").write_text("")
    (tmp_path / "private").chmod(0o600)
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / name).symlink_to(tmp_path / "private")
    with pytest.raises(plughost.InvalidConfig, match="that other users cannot read"):
        config.load_folder(tmp_path / "folder")


def test_a_file_that_was_found_here_is_not_read_through_a_link_either(tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/plughost.toml").write_text(OWN)
    (tmp_path / "mine/plughost.toml").chmod(0o600)
    (tmp_path / "plughost.toml").symlink_to("mine/plughost.toml")
    assert config.load_found(tmp_path / "plughost.toml")["p"].env  # below its own folder: the author's
    (tmp_path / "elsewhere").mkdir()
    found = tmp_path / "elsewhere/plughost.toml"
    found.symlink_to(tmp_path / "mine/plughost.toml")
    with pytest.raises(plughost.InvalidConfig, match="real path with -c"):
        config.load_found(found)
    assert config.load(found)["p"].env  # the operator names it


def test_a_link_to_a_file_that_everybody_may_read_is_followed():
    with temporary_folder("plughost-test-", READABLE) as place:
        (Path(place) / "store.toml").write_text(OWN)
        (Path(place) / "store.toml").chmod(0o644)
        (Path(place) / "folder").mkdir()
        (Path(place) / "folder/plughost.toml").symlink_to("../store.toml")
        assert config.load_folder(Path(place) / "folder").name == "p"
