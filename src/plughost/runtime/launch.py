"""How a process is run: which launcher, with which arguments, and what it reports back.

The launcher (`launcher/plughost-launcher.c`, or `pylauncher.py` where it could not be compiled)
ends every descendant of a plugin when the plugin or the host ends. Its header tells how.
"""

from __future__ import annotations

import errno
import os
import resource
import sys
from collections.abc import Mapping

import msgspec

from plughost.base.errors import LaunchFailed

NATIVE = os.path.join(os.path.dirname(__file__), "plughost-launcher")
INNER = os.path.join(os.path.dirname(__file__), "plughost-inner")
PYTHON = os.path.join(os.path.dirname(__file__), "pylauncher.py")

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
    """What the launcher does for a confined plugin: `-` nothing, `keep` leave the report open for the next
    program, `UID:GID` become that user as well."""

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


class Report:
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

    def failure(self, launch: Launch) -> LaunchFailed | None:
        """Why nothing was executed; None when something was."""
        for line in self._lines():
            if line.startswith(b"fail "):
                _, stage, number = line.decode().split()
                return _explain(launch, stage, int(number))
        if not self.mode:
            return LaunchFailed("the launcher ended before it started anything")
        return None

    def _lines(self) -> list[bytes]:
        return self._text.split(b"\n")[:-1]


def _explain(launch: Launch, stage: str, number: int) -> LaunchFailed:
    why = f"{os.strerror(number)} ({errno.errorcode.get(number, number)})"
    program = launch.command[0]
    if stage == "exec":
        return LaunchFailed(f"cannot execute {program!r}: {why}", hint=_hint(program, number))
    if stage == "chdir":
        return LaunchFailed(
            f"cannot start in folder {launch.cwd!r}: {why}", hint="check the plugin's cwd setting"
        )
    return LaunchFailed(f"the launcher failed at {stage}: {why}", hint="run `plughost doctor`")


def _hint(program: str, number: int) -> str:
    if number == errno.ENOENT and os.path.exists(program):
        return "the file is there, but the interpreter on its first line, or its loader, is not"
    return {
        errno.ENOENT: "check the path of the command",
        errno.EACCES: f"make it executable (chmod +x {program}) and reachable for this user",
        errno.ENOEXEC: "it is no program: a script needs a first line such as #!/usr/bin/env python3",
    }.get(number, "")
