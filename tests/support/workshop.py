"""An author's machine: a virtual environment with plughost, and a plain environment around it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path

import pytest

from tests.support import ROOT

TOOLS = {"python": ("python3",), "node": ("node",), "go": ("go",), "rust": ("cargo", "rustc")}


class Workshop:
    def __init__(self, place: Path) -> None:
        home = place / "venv"
        venv.create(home, symlinks=True)
        paths = [
            ROOT / "src",
            *(path for path in sys.path if "site-packages" in path),
        ]
        [packages] = home.glob("lib/*/site-packages")
        (packages / "installed.pth").write_text("".join(f"{path}\n" for path in paths))
        script = home / "bin/plughost"
        script.write_text(f"#!{home}/bin/python3\nfrom plughost.cli.main import main\n\nmain()\n")
        script.chmod(0o755)
        # What a tool prints may depend on a terminal, on colours, and on CI being set: none of that here.
        self.env = {
            **{name: os.environ[name] for name in ("HOME", "GOCACHE", "CARGO_HOME", "RUSTUP_HOME") if name in os.environ},
            "PATH": f"{home}/bin:{os.environ['PATH']}",
            "XDG_DATA_HOME": str(place / "data"),
            "XDG_STATE_HOME": str(place / "state"),
            "LANG": "C.UTF-8",
            "COLUMNS": "80",
            "NO_COLOR": "1",
            "GOFLAGS": "-buildvcs=false",
            "GOPROXY": "off",
            "GOTOOLCHAIN": "local",
            "CARGO_NET_OFFLINE": "true",
            "CARGO_PROFILE_RELEASE_OPT_LEVEL": "0",  # what it does is tested, not how fast
            "CARGO_PROFILE_DEV_DEBUG": "0",
            "CARGO_INCREMENTAL": "0",
        }  # fmt: skip

    def run(self, command: str, cwd: Path) -> subprocess.CompletedProcess[str]:
        """A command line, as it would be typed in that folder; both streams as one."""
        return subprocess.run(
            command, shell=True, cwd=cwd, env=self.env, text=True, timeout=100,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip


def need(language: str) -> None:
    """Skip where the language's tools are missing, but never in CI."""
    missing = [tool for tool in TOOLS[language] if shutil.which(tool) is None]
    if missing and not os.environ.get("CI"):
        pytest.skip(f"not installed: {', '.join(missing)}")
    assert not missing
