"""Copies this SDK into a plugin's own folder, so that the plugin needs nothing installed but Python."""

from __future__ import annotations

import shutil
from pathlib import Path

SDK = Path(__file__).parent
PLACE = "lib/plughost_sdk"
SHARED = ("__init__.py", "handlers.py", "hooks.py", "message.py", "pipes.py", "wire.py")
OWN = {
    "ainb": (
        "ainb.py", "chunks.py", "command_line.py", "host.py", "manifest.py", "params.py", "peer.py",
        "screen.py",
    ),
    "kaged": ("kaged.py", "peer.py", "storage.py"),
    "mcptest": ("mcptest.py",),
    "rune": ("rune.py",),
    "vai": ("manifest.py", "vendor.py", "vai/*.py"),
}  # fmt: skip
"""The modules that a plugin needs beside the shared ones, by its contract."""


def sources(contract: str) -> dict[str, Path]:
    """The files for a plugin of that contract, by their path in its folder."""
    found = sorted(path for name in (*SHARED, *OWN[contract]) for path in SDK.glob(name))
    return {f"{PLACE}/{path.relative_to(SDK)}": path for path in found}


def vendor(folder: Path, contract: str) -> list[str]:
    """Put them there in place of an older copy."""
    copied = sources(contract)
    if (folder / PLACE).resolve() == SDK.resolve():
        return [*copied]  # this is that copy
    shutil.rmtree(folder / PLACE, ignore_errors=True)
    for name, source in copied.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, path)
    return [*copied]
