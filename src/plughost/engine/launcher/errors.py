"""Error messages of the launcher: why a plugin could not be started, for each stage that may fail."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator

from plughost.errors import LaunchFailed, PluginError

SHORTAGES = {
    errno.EMFILE: "too many open files: raise the limit (ulimit -n); a plugin needs ten while it starts",
    errno.ENFILE: "too many open files on this machine: raise fs.file-max",
    errno.ENOSPC: "no disk space is left: free some, or set TMPDIR to a folder on another disk",
    errno.EDQUOT: "this user's disk quota is used up: free some space",
    errno.EAGAIN: "the system cannot start another process: raise the limit (ulimit -u) or free memory",
    errno.ENOMEM: "the system cannot start another process: raise the limit (ulimit -u) or free memory",
}
"""Errors for which the machine ran out of something, which may be available at the next attempt; a hint for
each."""
NO_WATCHES = "this user's epoll watches are used up by its programs: raise fs.epoll.max_user_watches"

STAGES = {
    "uid": (
        "cannot run the plugin as another user",
        "only a host that runs as root can do that, and only for a user other than root; a container may "
        "forbid it",
    ),
    "group": ("cannot put the plugin into its control group", "check that this user can write to it"),
    "limit": ("cannot set the limit of {what}", "the limit is above that of the host itself: lower it"),
    "landlock": (
        "cannot confine the plugin with Landlock",
        "the kernel lacks Landlock, or has it switched off (lsm=landlock,... at boot): run `plughost doctor`",
    ),
    "moved": (
        "{what} is no longer what it was when the plugin was added",
        "if it was replaced on purpose, reload the plugin; if not, find out who can write there",
    ),
    "forward": ("cannot start the network forwarder of the sandbox", "run `plughost doctor`"),
    "capabilities": ("cannot drop the privileges of the plugin", "run `plughost doctor`"),
    "seccomp": (
        "cannot filter the system calls of the plugin",
        "the kernel has no seccomp filters, or plughost has none for this processor (only x86-64 and arm64)",
    ),
    "descriptors": ("cannot close the descriptors of the sandbox", "confinement needs Linux 5.9 or newer"),
    "words": (
        "plughost-inner does not understand {what!r}",
        "its version differs from plughost's: reinstall plughost",
    ),
}


@contextlib.contextmanager
def as_launch_failure(what: str, plugin: str = "") -> Iterator[None]:
    """Turns any exception inside into a LaunchFailed of the plugin, so that neither other plugins nor the
    host fail with it. A PluginError stays as it is."""
    try:
        yield
    except PluginError:
        raise
    except Exception as error:
        raise launch_failure(what, error, plugin) from error


def launch_failure(what: str, error: Exception, plugin: str = "") -> LaunchFailed:
    """A LaunchFailed that says what could not be done and why, with a hint for shortages."""
    number = error.errno if isinstance(error, OSError) else None
    why = str(error) if isinstance(error, OSError | ValueError) else f"{type(error).__name__}: {error}"
    return LaunchFailed(f"{what}: {why}", plugin=plugin, hint=SHORTAGES.get(number or 0, ""))


def is_shortage(error: BaseException) -> bool:
    """Whether the machine ran out of something, so that the next attempt may succeed."""
    return isinstance(error, OSError) and error.errno in SHORTAGES


def explain(program: str, cwd: str | None, stage: str, number: int, what: str) -> LaunchFailed:
    """The LaunchFailed for a stage that the launcher reported, with its errno. `what` is reported by
    plughost-inner only: the file, folder or limit it failed at."""
    why = f"{os.strerror(number)} ({errno.errorcode.get(number, number)})"
    if stage == "exec":
        hint = _hint_inside(number) if what else _hint(program, number)
        return LaunchFailed(f"cannot execute {what or program!r}: {why}", hint=hint)
    if stage == "chdir":
        return LaunchFailed(
            f"cannot start in folder {what or cwd!r}: {why}", hint="check the plugin's cwd setting"
        )
    if stage in STAGES:
        message, hint = STAGES[stage]
        return LaunchFailed(f"{message.format(what=what)}: {why}", hint=hint)
    return LaunchFailed(f"the launcher failed at {stage}: {why}", hint="run `plughost doctor`")


def _hint(program: str, number: int) -> str:
    if number == errno.ENOENT and os.path.exists(program):
        return "the file exists, but the interpreter on its first line, or its loader, does not"
    return {
        errno.ENOENT: "check the path of the command",
        errno.EACCES: f"make it executable (chmod +x {program}) and reachable for this user",
        errno.ENOEXEC: "it is not a program; a script needs a first line such as #!/usr/bin/env python3",
    }.get(number, "")


def _hint_inside(number: int) -> str:
    """The hint for an exec inside a sandbox, where a file may be missing although the host sees it."""
    return {
        errno.ENOENT: "the file, its interpreter or its loader is not visible inside the sandbox",
        errno.EACCES: "the program, its interpreter and its loader must be executable, granted, and not "
        "inside a private folder (mode 0700) of another user",
        errno.ENOEXEC: "it is not a program; a script needs a first line such as #!/usr/bin/env python3",
        errno.ENOMEM: "the plugin's memory limit is too low to start it: raise limits.memory",
    }.get(number, "")
