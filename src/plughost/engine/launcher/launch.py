"""Launch: the command line of the launcher for one process; and LaunchReport, what the launcher reports back.

The launcher (`launcher/plughost-launcher.c`, or `pylauncher.py` where it could not be compiled) ends every
descendant of a plugin when the plugin or the host ends; the comment at its top explains how. A sandboxed
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

MODES = ("auto", "pidns", "subreaper")
"""How a launcher can hold the descendants of a plugin; `auto` is the best that works here."""
CONFINING = ("uid", "landlock", "watched", "unwatched", "seccomp")

_original_nofile: int | None = None


class Launch(msgspec.Struct, frozen=True):
    """A process to launch. Its environment is exactly `env`: nothing is inherited."""

    command: tuple[str, ...]
    env: Mapping[str, str]
    cwd: str | None = None
    launcher: tuple[str, ...] = ()
    """The launcher's own command; empty for the best one available."""
    mode: str = "auto"
    """auto | pidns | subreaper: how the plugin's descendants are ended with it."""
    confine: str = "-"
    """- (not sandboxed) | keep (the command runs plughost-inner, as the same user) | UID:GID (the same, as
    this user)."""
    groups: tuple[str, ...] = ()
    """The cgroup.procs files of the control groups that the process joins."""
    egress: tuple[str, str] | None = None
    """For a process with its own network namespace: the egress proxy's socket, and where the forwarder to it
    listens."""

    def __repr__(self) -> str:  # the environment may hold secrets
        return f"Launch(command={self.command!r}, cwd={self.cwd!r}, env=<{len(self.env)} variables>)"

    def argv(self) -> list[str]:
        """The launcher's command line. A program without a slash is looked up in the host's PATH."""
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
        """The path of the program to execute; raises LaunchFailed when it is not on PATH."""
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
    """The command of the compiled launcher, or of the Python one if that is missing."""
    if os.path.exists(NATIVE):
        return (NATIVE,)
    return python_launcher()


def python_launcher() -> tuple[str, ...]:
    """The command of the launcher written in Python."""
    return (sys.executable, "-I", "-S", "-E", PYTHON)


def raise_fd_limit() -> None:
    """Raise the soft limit of file descriptors to the hard limit. Plugins still start with the original
    limit."""
    global _original_nofile
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == hard:
        return
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    _original_nofile = soft


class LaunchReport:
    """The lines that the launcher wrote to its report pipe, parsed."""

    __slots__ = ("_text",)

    def __init__(self) -> None:
        self._text = b""

    def feed(self, data: bytes) -> None:
        """Add bytes of the report; at most 4096 are kept."""
        self._text = (self._text + data)[:4096]

    @property
    def mode(self) -> str:
        """pidns (the kernel ends all descendants) or subreaper (best effort); empty when nothing was
        started."""
        return next((line[5:].decode() for line in self._lines() if line.startswith(b"mode ")), "")

    @property
    def confined_by(self) -> tuple[str, ...]:
        """The sandbox mechanisms that are active, such as `uid 1000:1000`, `landlock 7`, `seccomp`."""
        words = (line.decode(errors="replace") for line in self._lines())
        return tuple(word for word in words if word.split(" ")[0] in CONFINING)

    def failure(self, launch: Launch) -> LaunchFailed | None:
        """Why the program was not executed; None when it was."""
        for line in self._lines():
            if line.startswith(b"fail "):
                _, stage, number, *what = line.decode(errors="replace").split(" ", 3)
                return explain(launch.command[0], launch.cwd, stage, int(number), "".join(what))
        if not self.mode:
            return LaunchFailed("the launcher ended before it started anything")
        if launch.confine != "-" and b"confined" not in self._lines():
            return LaunchFailed(
                f"{os.path.basename(launch.command[0])} ended before the plugin was confined, so the plugin "
                "was not run",
                hint="see its last lines on stderr; `plughost doctor` shows what works on this machine",
            )
        return None

    def _lines(self) -> list[bytes]:
        return self._text.split(b"\n")[:-1]
