"""How a process is run: which launcher, with which arguments, and what it reports back.

The launcher (`launcher/plughost-launcher.c`, or `pylauncher.py` where it could not be compiled)
ends every descendant of a plugin when the plugin or the host ends. Its header tells how. A confined
plugin is executed by `plughost-inner` (`launcher/plughost-inner.c`), the last step inside its sandbox.
"""

from __future__ import annotations

import os
import resource
import sys
from collections.abc import Mapping

import msgspec

from plughost.engine.launcher.errors import explain
from plughost.errors import LaunchFailed

NATIVE = os.path.join(os.path.dirname(__file__), "plughost-launcher")
INNER = os.path.join(os.path.dirname(__file__), "plughost-inner")
PYTHON = os.path.join(os.path.dirname(__file__), "pylauncher.py")

CONFINING = ("uid", "landlock", "watched", "unwatched", "seccomp")

_original_nofile: int | None = None


class Launch(msgspec.Struct, frozen=True):
    """What to run. The environment is exactly `env`: nothing is inherited."""

    command: tuple[str, ...]
    env: Mapping[str, str]
    cwd: str | None = None
    launcher: tuple[str, ...] = ()
    """The launcher's own command; empty for the best one there is."""
    mode: str = "auto"
    """auto | pidns | subreaper: what holds the plugin's descendants."""
    confine: str = "-"
    """- (the command is the plugin) | keep (it ends in plughost-inner) | UID:GID (so, and as this user)."""
    groups: tuple[str, ...] = ()
    """The cgroup.procs of the control groups that it is in."""
    egress: tuple[str, str] | None = None
    """It has a network of its own: the proxy's socket, and what the forwarder to it listens on."""

    def __repr__(self) -> str:  # the environment may hold secrets
        return f"Launch(command={self.command!r}, cwd={self.cwd!r}, env=<{len(self.env)} variables>)"

    def argv(self) -> list[str]:
        """The launcher's command line. A bare program name is found through the host's PATH."""
        return [
            *(self.launcher or default_launcher()),
            str(os.getpid()),
            self.mode,
            "-" if _original_nofile is None else str(_original_nofile),
            "-" if self.cwd is None else os.path.join(".", self.cwd),
            self.confine,
            ":".join(self.groups) or "-",
            *(self.egress or ("-", "-")),
            self.program(),
            *self.command,
        ]

    def program(self) -> str:
        name = self.command[0]
        if os.sep in name:
            return name
        import shutil

        found = shutil.which(name, path=os.environ.get("PATH", os.defpath))
        if found is None:
            raise LaunchFailed(
                f"cannot execute {name!r}: not found on PATH",
                hint="install it, or give the command with its path",
            )
        return found


def default_launcher() -> tuple[str, ...]:
    if os.path.exists(NATIVE):
        return (NATIVE,)
    return python_launcher()


def python_launcher() -> tuple[str, ...]:
    return (sys.executable, "-I", "-S", "-E", PYTHON)


def raise_fd_limit() -> None:
    """Use all the file descriptors we may; plugins still start with the limit we had."""
    global _original_nofile
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == hard:
        return
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    _original_nofile = soft


class LaunchReport:
    """What the launcher said on its report pipe."""

    __slots__ = ("_text",)

    def __init__(self) -> None:
        self._text = b""

    def feed(self, data: bytes) -> None:
        self._text = (self._text + data)[:4096]

    @property
    def mode(self) -> str:
        """pidns (held by the kernel) or subreaper (best effort); empty when nothing was started."""
        return next((line[5:].decode() for line in self._lines() if line.startswith(b"mode ")), "")

    @property
    def confined_by(self) -> tuple[str, ...]:
        """What was put around the plugin, such as `uid 1000:1000`, `landlock 7`, `seccomp`."""
        words = (line.decode(errors="replace") for line in self._lines())
        return tuple(word for word in words if word.split(" ")[0] in CONFINING)

    def failure(self, launch: Launch) -> LaunchFailed | None:
        """Why nothing was executed; None when something was."""
        for line in self._lines():
            if line.startswith(b"fail "):
                _, stage, number, *what = line.decode(errors="replace").split(" ", 3)
                return explain(launch.command[0], launch.cwd, stage, int(number), "".join(what))
        if not self.mode:
            return LaunchFailed("the launcher ended before it started anything")
        if launch.confine != "-" and b"confined" not in self._lines():
            return LaunchFailed(
                f"{os.path.basename(launch.command[0])} ended before the plugin was confined: it was not run",
                hint="its last lines on stderr tell why; `plughost doctor` shows what works here",
            )
        return None

    def _lines(self) -> list[bytes]:
        return self._text.split(b"\n")[:-1]
