"""Plugins with screens, and a terminal of one's own to see them in."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

import plughost
from plughost.contracts.ainb import manifest as manifests
from tests.support import PLUGINS, ROOT, processes, token

PATIENCE = 60.0
OURS = str(Path(plughost.__file__).parent.parent)
"""Where the plughost under test is."""


def easel(
    root: Path,
    name: str = "easel",
    *,
    screens: Sequence[str] = ("main",),
    env: dict[str, str] | None = None,
    spawn: str = "lazy",
    **options: Any,
) -> Path:
    """The folder of a plugin that does as keys say; its own file binds it, with these variables and settings."""
    place = root / name
    place.mkdir(parents=True)
    told = manifests.AinbManifest(
        manifests.AinbAbout(name, "1.0.0", 2),
        manifests.Capabilities(event_bus=True),
        manifests.Provides(screens=list(screens)),
        manifests.Subscribes(snapshots=["data"]),
        manifests.Lifecycle(spawn=spawn),
    )
    (place / manifests.FILE).write_text(manifests.write(told))
    program = place / name
    source = str(PLUGINS / "easel.py")
    program.write_text(
        f"#!{sys.executable} -ISE\nexec(compile(open({source!r}).read(), {source!r}, 'exec'))\n"
    )
    program.chmod(0o755)
    lines = [f"[plugins.{name}]", 'contract = "ainb"', f"command = [{json.dumps(str(program))}]"]
    lines += [f"{key} = {json.dumps(value)}" for key, value in options.items()]
    lines += [f"env.{key} = {json.dumps(value)}" for key, value in (env or {}).items()]
    (place / "plughost.toml").write_text("\n".join(lines) + "\n")
    return place


def inputs(path: Path) -> list[list[Any]]:
    """What an easel has noted: kind, params, when. It may be in the middle of its last line."""
    return [json.loads(line) for line in path.read_text().split("\n")[:-1]] if path.exists() else []


class Terminal:
    """A tmux server of one's own with one window, in which a command runs."""

    def __init__(
        self, command: Sequence[str], columns: int = 80, rows: int = 24, env: dict[str, str] | None = None
    ) -> None:
        if shutil.which("tmux") is None:
            if os.environ.get("CI"):
                pytest.fail("tmux is missing")
            pytest.skip("screens in a terminal are tried in tmux (Debian: apt-get install tmux)")
        self.mark = token()
        self._folder = tempfile.TemporaryDirectory(prefix="tmux-")
        told = {"PYTHONPATH": OURS, "LANG": "C.UTF-8", "MARK": self.mark, **(env or {})}
        self._env = {**os.environ, **told, "TERM": "xterm-256color"}
        for name in ("TMUX", "COLUMNS", "LINES"):  # a test worker has the size of another terminal
            self._env.pop(name, None)
        words = shlex.join(command)
        self._tmux(
            "-f", "/dev/null", "new-session", "-d", "-x", str(columns), "-y", str(rows),
            f"{words}; echo left with $?; stty -a | grep -c ' icanon'; exec cat",
        )  # fmt: skip

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, *_: object) -> None:
        self._tmux("kill-server", check=False)
        end = time.monotonic() + PATIENCE
        while left := processes(self.mark, "environ"):
            assert time.monotonic() < end, f"left running: {left}"
            time.sleep(0.01)
        self._folder.cleanup()

    def _tmux(self, *words: str, check: bool = True) -> str:
        command = ["tmux", "-S", f"{self._folder.name}/socket", "-u", *words]
        done = subprocess.run(
            command, env=self._env, cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE
        )
        assert not check or done.returncode == 0, done.stderr
        return done.stdout

    def press(self, *keys: str) -> None:
        self._tmux("send-keys", *keys)

    def resize(self, columns: int, rows: int) -> None:
        self._tmux("resize-window", "-x", str(columns), "-y", str(rows))

    def type(self, text: str) -> None:
        """These very bytes, as a terminal would send them."""
        self._tmux("send-keys", "-l", text)

    def modes(self) -> str:
        """Whether it shows the other screen, reports the mouse, shows the cursor."""
        return self._tmux("display-message", "-p", "#{alternate_on} #{mouse_any_flag} #{cursor_flag}").strip()

    def hang_up(self) -> None:
        self._tmux("kill-server")

    def record(self, file: Path) -> None:
        """Keep what is written to the terminal from now on."""
        self._tmux("pipe-pane", f"cat > {shlex.quote(str(file))}")

    def screen(self, *, colours: bool = False) -> str:
        return self._tmux("capture-pane", "-p", *(["-e"] if colours else []))

    def until(self, seen: str | Callable[[str], Any]) -> str:
        """The screen, once it shows this."""
        end = time.monotonic() + PATIENCE
        while True:
            screen = self.screen()
            if seen in screen if isinstance(seen, str) else seen(screen):
                return screen
            assert time.monotonic() < end, f"never seen: {seen}\n{screen}"
            time.sleep(0.02)


def screen_command(*words: str) -> list[str]:
    return [sys.executable, "-m", "plughost.cli", "screen", *words]
