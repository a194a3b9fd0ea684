"""The first-party packages as they are packed, and as an invoker finds them."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from plughost.contracts.vai import manifest
from plughost.vai.bindings.package import Package
from plughost.vai.records.record import Started
from plughost_sdk.vendor import vendor
from tests.support import ROOT


def packaged(name: str, place: Path) -> Path:
    """A folder with all that the package has, also the SDK."""
    folder = place / name
    left_out = shutil.ignore_patterns("__pycache__", "plughost_sdk")
    shutil.copytree(ROOT / "plugins" / name, folder, ignore=left_out)
    vendor(folder, "vai")
    return folder


class Shelf:
    """One package, as if it were installed."""

    def __init__(self, folder: Path) -> None:
        self._package = Package(folder=str(folder), digest="sha256:x", manifest=manifest.read(folder))

    def find(self, package_id: str, version: str) -> Package:
        return self._package


class Nowhere:
    """Takes records, and keeps none."""

    is_behind = False

    async def commit_start(self, started: Started, key: str | None) -> str:
        self.append(started)
        return started.invocation_id

    async def catch_up(self) -> None:
        pass

    def append(self, entry: Any) -> None:
        pass
