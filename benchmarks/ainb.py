"""Plugins of the ainb contract: a folder each, with a manifest and the program under the plugin's name."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from plughost import PluginSpec, config
from plughost.contracts.ainb import manifest as manifests

VERSION = "1.0.0"
"""What the C plugin says of itself."""


def ainb_plugin(root: Path, name: str, command: Sequence[str], topics: Sequence[str] = ()) -> PluginSpec:
    """A plugin in a folder below `root`, subscribed to these topics."""
    program, *arguments = command
    folder = root / name
    folder.mkdir()
    told = manifests.AinbManifest(
        manifests.AinbAbout(name, VERSION, manifests.ABI_VERSION),
        manifests.Capabilities(event_bus=True),
        subscribes=manifests.Subscribes(list(topics)),
    )
    (folder / manifests.FILE).write_text(manifests.write(told))
    (folder / name).symlink_to(program)
    spec = config.load_folder(folder)
    return msgspec.structs.replace(spec, command=[*spec.command, *arguments])
