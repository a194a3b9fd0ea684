"""The removal of a folder that a plugin fills while it is removed."""

from __future__ import annotations

import os

from plughost._util.rmtree import rmtree


def test_a_plugin_that_makes_a_folder_for_each_that_is_removed_is_not_waited_for(tmp_path, monkeypatch):
    really, removed = os.rmdir, []

    def removed_and_made(path, *, dir_fd=None):
        really(path, dir_fd=dir_fd)
        removed.append(path)
        assert len(removed) < 100, "it goes on for ever"
        os.mkdir(f"new-{len(removed)}", dir_fd=dir_fd)

    (tmp_path / "full/first").mkdir(parents=True)
    monkeypatch.setattr(os, "rmdir", removed_and_made)
    rmtree(str(tmp_path / "full"), max_folders=10)
    assert len(removed) == 10
    assert os.listdir(tmp_path / "full") == ["new-10"]
    monkeypatch.undo()
    rmtree(str(tmp_path / "full"))
    assert os.listdir(tmp_path) == []
