"""A package brings everything along, also this SDK: a copy in its `lib/`, of what vai needs."""

from __future__ import annotations

import shutil
from pathlib import Path

SDK = Path(__file__).parent.parent
SHARED = ("__init__.py", "handlers.py", "hooks.py", "manifest.py", "message.py", "pipes.py", "wire.py")
PLACE = "lib/plughost_sdk"


def sources() -> dict[str, Path]:
    """The files by their path in the package."""
    own = [path for path in (SDK / "vai").iterdir() if path.suffix == ".py"]
    found = sorted([*(SDK / name for name in SHARED), *own])
    return {f"{PLACE}/{path.relative_to(SDK)}": path for path in found}


def vendor(folder: Path) -> list[str]:
    """Put them there in place of an older copy."""
    shutil.rmtree(folder / PLACE, ignore_errors=True)
    for name, source in sources().items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, path)
    return [*sources()]
