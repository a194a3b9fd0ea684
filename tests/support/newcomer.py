"""Commands as a newcomer types them: in a home outside /tmp, as root or as an ordinary user."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support import ROOT
from tests.support.confinable import needs

NOBODY = 65534
OUTSIDE_TMP = "/var/tmp"
"""Sandboxes have a /tmp of their own: a plugin that lies below the machine's may find more there than elsewhere."""
WHO = ("root", "ordinary user") if os.geteuid() == 0 else ("ordinary user",)


@contextmanager
def tools_outside_tmp() -> Iterator[Tools]:
    """What newcomers need, in a folder that every user can reach; it is removed with all that is in it."""
    needs("strict")
    made = tempfile.mkdtemp(prefix="plughost-test-", dir=OUTSIDE_TMP)
    try:
        os.chmod(made, 0o755)
        yield Tools(Path(os.path.realpath(made)))
    finally:
        shutil.rmtree(made)


class Tools:
    """A virtual environment with plughost and the SDK, of an interpreter that every user can reach."""

    def __init__(self, place: Path) -> None:
        self.place = place
        home = place / "venv"
        command = [_python(), "-m", "venv", "--without-pip", str(home)]
        subprocess.run(command, check=True, capture_output=True, timeout=100)
        [packages] = home.glob("lib/*/site-packages")
        # Copies: the checkout, and all that is installed in it, may be in a folder that only its owner can reach.
        # Bytecode comes along: an ordinary user cannot write it here, so each command would compile all anew.
        ignored = shutil.ignore_patterns("mypy*", "ruff*", "PIL", "pip", "pip-*", "textual*", "*.pth")
        for installed in (path for path in sys.path if path.endswith("site-packages")):
            shutil.copytree(installed, packages, ignore=ignored, dirs_exist_ok=True)
        shutil.copytree(ROOT / "src/plughost", packages / "plughost", ignore=ignored)
        for parent in (packages, packages / "plughost/scaffold/sdk"):  # there it is in a wheel
            shutil.copytree(ROOT / "sdk/python/src/plughost_sdk", parent / "plughost_sdk", ignore=ignored)
        script = home / "bin/plughost"
        script.write_text(f"#!{home}/bin/python3\nfrom plughost.cli.main import main\n\nmain()\n")
        script.chmod(0o755)
        self.path = f"{home}/bin:/usr/local/bin:/usr/bin:/bin"


class Newcomer:
    """`root`, or an ordinary user whose home is closed to all others."""

    def __init__(self, who: str, tools: Tools) -> None:
        self.home = tools.place / who.replace(" ", "-")
        self.home.mkdir()
        self.uid = os.geteuid()
        if who != "root":
            self.home.chmod(0o700)
            if self.uid == 0:
                self.uid = NOBODY
                os.chown(self.home, NOBODY, NOBODY)
        self._env = {
            "HOME": str(self.home),
            "PATH": tools.path,
            "XDG_DATA_HOME": str(self.home / "data"),
            "XDG_STATE_HOME": str(self.home / "state"),
            "LANG": "C.UTF-8",
            "NO_COLOR": "1",
        }

    def run(self, command: str, cwd: Path | None = None) -> str:
        """What a command line prints that ends well."""
        other = {} if self.uid == os.geteuid() else {"user": self.uid, "group": self.uid, "extra_groups": []}
        ran = subprocess.run(
            command, shell=True, cwd=cwd or self.home, env=self._env, text=True, timeout=100,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **other,
        )  # fmt: skip
        assert ran.returncode == 0, f"{command}\n{ran.stdout}"
        return ran.stdout


def _python() -> str:
    """An interpreter of our version that every user can reach: what is installed for us must run in it."""
    name = f"python3.{sys.version_info.minor}"
    known = [
        os.path.realpath(sys.executable),
        *(f"{place}/{name}" for place in ("/usr/local/bin", "/usr/bin")),
    ]
    for path in known:
        if os.access(path, os.X_OK) and (os.geteuid() != 0 or _is_reachable(os.path.realpath(path))):
            return path
    pytest.skip(f"no {name} that every user can reach")


def _is_reachable(path: str) -> bool:
    return all(os.stat(place).st_mode & 0o001 for place in (path, *map(str, Path(path).parents)))
