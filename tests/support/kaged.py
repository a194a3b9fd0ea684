"""Folders of kaged plugins, made by tests."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import msgspec

import plughost
from plughost import config
from tests.support import PLUGINS, data_root

METHODS = [
    "about",
    "ask",
    "echo",
    "exit",
    "fail",
    "fill",
    "freeze",
    "hold",
    "raw",
    "received",
    "stderr",
    "tell",
]
ABOUT: dict[str, Any] = {
    "name": "puppet",
    "version": "1.2.3",
    "kaged_api": 1,
    "description": "does as it is told",
    "methods": [f"p.{name}" for name in METHODS],
    "notifications": ["p.happened"],
}


def folder(
    root: Path, *, env: dict[str, str] | None = None, file: str = "manifest.yaml", **changes: Any
) -> Path:
    """A plugin's folder below `root` with the puppet as its program; a change to None leaves a field out."""
    place = root / "puppet"
    place.mkdir(parents=True)
    told = {**ABOUT, "command": [sys.executable, "-ISE", "./main.py", str(root)], **changes}
    listed = told.get("methods") or [f"puppet.{tool['name']}" for tool in told.get("tools") or []]
    about = {key: told.get(key) for key in ("version", "notifications")} | {"methods": listed}
    told["env"] = {"about": json.dumps(about), **(env or {})}
    # JSON is YAML, too.
    (place / file).write_text(json.dumps({key: value for key, value in told.items() if value is not None}))
    puppet = str(PLUGINS / "kaged_puppet.py")
    (place / "main.py").write_text(f"exec(compile(open({puppet!r}).read(), {puppet!r}, 'exec'))\n")
    return place


def spec(
    place: Path, *grants: str, env: dict[str, str] | None = None, sandbox: str = "none", **options: Any
) -> plughost.PluginSpec:
    return msgspec.structs.replace(
        config.load_folder(place),
        env=env or {},
        grants=grants,
        sandbox=sandbox,
        options={"data_root": data_root(place.parent), **options},
    )
