"""plughost as a user gets it: a wheel, installed into a virtual environment that knows nothing of this checkout."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from importlib.metadata import distribution
from pathlib import Path

from tests.support import ROOT

NAME = re.compile(r"^[A-Za-z0-9._-]+")
EXTRA = re.compile(r"extra\s*==")
SOURCES = (
    "launcher",
    "plugins/canaries",
    "sdk/python/src",
    "src/plughost",
    "LICENSE",
    "README.md",
    "pyproject.toml",
    "setup.py",
)
"""What a wheel is built from."""


def checkout(place: Path) -> Path:
    """A copy of all that a wheel is built from, so that builds do not meet."""
    ignore = shutil.ignore_patterns("__pycache__", "plughost-launcher", "plughost-inner", "filters.h")
    for name in SOURCES:
        source, target = ROOT / name, place / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copytree(source, target, ignore=ignore) if source.is_dir() else shutil.copyfile(source, target)
    return place


def build(source: Path, into: Path, **env: str) -> tuple[Path, str]:
    """The wheel of a checkout, and what its build said."""
    command = [
        sys.executable, "-m", "pip", "wheel", "-v", "--no-deps", "--no-build-isolation", "--no-cache-dir",
        "--disable-pip-version-check", "-w", str(into), str(source),
    ]  # fmt: skip
    ran = subprocess.run(
        command, env={**os.environ, **env}, text=True, stdout=-1, stderr=subprocess.STDOUT, timeout=100
    )
    assert ran.returncode == 0, ran.stdout
    [wheel] = into.glob("*.whl")
    return wheel, ran.stdout


def install(wheel: Path, place: Path) -> Path:
    """A virtual environment with the wheel and what it depends on, without extras; nothing is downloaded."""
    subprocess.run([python(), "-m", "venv", "--without-pip", str(place)], check=True, timeout=100)
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", f"--python={place}/bin/python3"]
    subprocess.run([*pip, "install", "-q", "--no-index", "--no-deps", str(wheel)], check=True, timeout=100)
    [packages] = place.glob("lib/*/site-packages")
    for name in dependencies("plughost"):
        _copy(name, packages)
    return place


def python() -> str:
    """One that every user can reach, if it is of this version: confined plugins of a root host are other users."""
    system = "/usr/bin/python3"
    told = (
        subprocess.run([system, "-V"], capture_output=True, text=True).stdout
        if os.path.exists(system)
        else ""
    )
    same = told.startswith(f"Python {sys.version_info.major}.{sys.version_info.minor}.")
    return system if same else sys.executable


def dependencies(name: str) -> set[str]:
    """The distributions that one depends on, directly or not; without extras."""
    found: set[str] = set()
    wanted = [name]
    while wanted:
        for told in distribution(wanted.pop()).requires or ():
            other = NAME.match(told)
            assert other is not None
            if not EXTRA.search(told) and other[0] not in found and _is_installed(other[0]):
                found.add(other[0])
                wanted.append(other[0])
    return found


def _is_installed(name: str) -> bool:
    try:
        distribution(name)
    except ModuleNotFoundError:  # for another platform or Python
        return False
    return True


def _copy(name: str, packages: Path) -> None:
    for file in distribution(name).files or ():
        if ".." not in file.parts and "__pycache__" not in file.parts:
            target = packages / file
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(str(file.locate()), target)
