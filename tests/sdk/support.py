"""Plugins written with the SDK, as tests run them."""

from __future__ import annotations

import sys
import textwrap
from pathlib import Path

from plughost.contracts.ainb import manifest as manifests
from tests.support import ROOT

SDK = ROOT / "sdk/python/src"


def program(path: Path, source: str, *flags: str) -> Path:
    """An executable Python program that finds the SDK."""
    shebang = f"#!{sys.executable} {''.join(flags) or '-ISE'}\n"
    path.write_text(f"{shebang}import sys\nsys.path.insert(0, {str(SDK)!r})\n{textwrap.dedent(source)}")
    path.chmod(0o755)
    return path


def ainb_folder(root: Path, source: str, name: str = "made", **sections: dict[str, object]) -> Path:
    place = root / name
    place.mkdir(parents=True)
    told = manifests.Manifest(
        manifests.About(name, "1.0.0", 2),
        manifests.Capabilities(event_bus=True, read_sessions=True),
        manifests.Provides(**sections.get("provides", {})),
        manifests.Subscribes(**sections.get("subscribes", {})),
    )
    (place / "manifest.toml").write_text(manifests.write(told))
    program(place / name, source)
    return place
