"""session-reader as an operator binds it who lets it read logs that other users cannot."""

from __future__ import annotations

from pathlib import Path

import msgspec

from plughost import PluginSpec, config


def reader(root: Path) -> PluginSpec:
    spec = config.load_folder(root / "plugins/session-reader")
    return msgspec.structs.replace(spec, grants=("declared", "read_claude_logs", "read_codex_logs"))
