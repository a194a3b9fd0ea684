"""The notes plugins as they are shipped, in a folder that a confined plugin can reach."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import msgspec
import pytest

import plughost
from plughost import config
from plughost.contracts.kaged.contract import KagedContext
from tests.support import ROOT, data_root

"""One that any user can reach: of a root host the plugin is another."""
HERE, ELSEWHERE = (
    KagedContext(project_id="p1"),
    KagedContext(project_id="p2", agent_path="primary.subagents.x"),
)


def copied(name: str, ground: Path, program: str = "") -> Path:
    """The plugin's folder below `ground`; with `program`, its command begins with that instead."""
    place = ground / name
    shutil.copytree(
        ROOT / "plugins" / name, place, ignore=shutil.ignore_patterns("__pycache__", "node_modules")
    )
    if program:
        manifest = place / "manifest.yaml"
        text = manifest.read_text()
        assert "command: [python3," in text
        manifest.write_text(text.replace("command: [python3,", f"command: [{program},"))
    return place


def compiled() -> None:
    """Skips a test of plugins/notes-ts where it could not be compiled, but never in CI."""
    there = (ROOT / "plugins/notes-ts/bin/main.js").exists() and shutil.which("node") is not None
    if not there and not os.environ.get("CI"):
        pytest.skip("plugins/notes-ts is not compiled: `make setup` does it where there is Node with npm")


def spec(place: Path, *grants: str, **options: Any) -> plughost.PluginSpec:
    """As the operator binds it: confined, unless something else is said."""
    return msgspec.structs.replace(
        config.load_folder(place),
        grants=grants,
        options={"data_root": data_root(place.parent), **options},
    )
