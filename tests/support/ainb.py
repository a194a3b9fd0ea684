"""Folders of ainb plugins, made by tests."""

from __future__ import annotations

import base64
import sys
from pathlib import Path
from typing import Any

import msgspec

import plughost
from plughost import config
from plughost.contracts.ainb import manifest as manifests
from tests.support import PLUGINS, data_root

ALL = dict.fromkeys(manifests.Capabilities.__struct_fields__, True)


def folder(
    root: Path,
    name: str = "puppet",
    *,
    capabilities: dict[str, Any] | None = None,
    version: str = "1.2.3",
    **sections: dict[str, Any],
) -> Path:
    """A plugin's folder below `root` with the puppet as its program."""
    place = root / name
    place.mkdir(parents=True)
    told = manifests.AinbManifest(
        manifests.AinbAbout(name, version, 2),
        manifests.Capabilities(**(ALL if capabilities is None else capabilities)),
        manifests.Provides(**sections.get("provides", {})),
        manifests.Subscribes(**sections.get("subscribes", {})),
        manifests.Lifecycle(**sections.get("lifecycle", {})),
    )
    (place / manifests.FILE).write_text(manifests.write(told))
    program = place / name
    puppet = str(PLUGINS / "ainb_puppet.py")
    program.write_text(
        f"#!{sys.executable} -ISE\nexec(compile(open({puppet!r}).read(), {puppet!r}, 'exec'))\n"
    )
    program.chmod(0o755)
    return place


def spec(
    place: Path, env: dict[str, str] | None = None, grants: tuple[str, ...] | None = None, **options: Any
) -> plughost.PluginSpec:
    told = config.load_folder(place)
    return msgspec.structs.replace(
        told,
        env=env or {},
        grants=told.grants if grants is None else grants,
        options={**told.options, "data_root": data_root(place.parent), **options},
    )


def b64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


async def ask(plugin: Any, method: str, params: Any = None, **more: Any) -> dict[str, Any]:
    """What the host answers when the plugin asks; the error, or else the result."""
    reply = await plugin.call("ask", {"method": method, "params": {} if params is None else params, **more})
    return reply.get("error") or reply["result"]


async def events(plugin: Any) -> list[tuple[str, str]]:
    """The events that the plugin has received."""
    received = await plugin.call("received")
    return [
        (params["topic"], base64.b64decode(params["payload"]).decode())
        for method, params in (entry for entry in received if isinstance(entry, list))
        if method == "plugin/handle_event"
    ]
