"""The test fixture for a host under test: a plugin root with canary plugins, and a home folder."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path

import plughost

PARTNER = "partner"
SHARED = ("canary.py", "msgpack_writer.py")
AINB_HOME = ".agents-in-a-box"
FOREIGN = "another-abi"
UNREADABLE = "unreadable"

_FOREIGN_PROGRAM = '#!/bin/sh\ntouch "$(dirname "$0")/started"\n'
_FOREIGN_MANIFEST = f"""[plugin]
name = "{FOREIGN}"
version = "1.0.0"
abi_version = 9

[lifecycle]
spawn = "eager"
"""


def canaries() -> Path:
    """The folder of the canary plugins: beside this file in an installed package, otherwise in the source
    tree."""
    packed = Path(__file__).parent / "canaries"
    return packed if packed.is_dir() else Path(plughost.__file__).parents[2] / "plugins/canaries/ainb"


def root(place: Path, names: Iterable[str], *, judging: bool) -> Path:
    """Creates a plugin root with the named canaries in it."""
    for name in names:
        (place / name).mkdir(parents=True)
        for file in (name, "manifest.toml"):
            shutil.copy(canaries() / name / file, place / name / file)
        (place / name / name).chmod(0o755)  # not every installer keeps the mode
        if judging:
            (place / name / "judge").touch()
    for name in SHARED:
        shutil.copy(canaries() / name, place / name)
    return place


def add_foreign(place: Path) -> None:
    """Adds a plugin of another ABI version, which a host must skip."""
    _add(place, FOREIGN, _FOREIGN_MANIFEST)


def add_unreadable(place: Path) -> None:
    """Adds a plugin with an unreadable manifest; a host must still load the others."""
    _add(place, UNREADABLE, "[plugin\nname = ")


def _add(place: Path, name: str, manifest: str) -> None:
    (place / name).mkdir()
    (place / name / "manifest.toml").write_text(manifest)
    program = place / name / name
    program.write_text(_FOREIGN_PROGRAM)
    program.chmod(0o755)


def home(place: Path) -> Path:
    """Creates a home folder with sessions, and with symlinks that lead out of them."""
    sessions = place / AINB_HOME / "sessions"
    (sessions / "folder").mkdir(parents=True)
    (sessions / "hello.txt").write_text("hello\n")
    secret = place / AINB_HOME / "secret.txt"
    secret.write_text("not for plugins\n")
    (sessions / "leads-out.txt").symlink_to(secret)
    (sessions / "leads-up").symlink_to(secret.parent)
    for other in (f"{AINB_HOME}/sessions-not", ".claude/projects"):
        (place / other).mkdir(parents=True)
        (place / other / "hello.txt").write_text("not for plugins\n")
    for path in (place, *place.rglob("*")):
        if not path.is_symlink():  # open to every user: a manifest alone may grant no more
            path.chmod(0o755 if path.is_dir() else 0o644)
    return place
