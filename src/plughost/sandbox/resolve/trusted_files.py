"""Which files of this machine may be shown to a plugin without its operator having named them.

What is in a plugin's folder is hostile: its symlinks, first lines and program headers name whatever they
like. What they name is brought in only when it is a public file: everybody may read it, and only root can
have put it there. Never a folder: that one is public says nothing of what is in it. So a plugin that asks
for more learns nothing that any user of the machine could not.
"""

from __future__ import annotations

import enum
import os
import stat
from collections.abc import Callable, Iterable
from typing import NamedTuple

from plughost.errors import SandboxUnavailable
from plughost.permissions.public_files import is_file, is_public

__all__ = [
    "ExposurePolicy",
    "Walk",
    "Word",
    "is_beneath",
    "is_broad",
    "is_file",
    "is_plain",
    "is_public",
    "walk",
    "walk_again",
]

MOST_LINKS = 40
LONGEST = 4096

BROAD = frozenset(
    {
        "/", "/bin", "/boot", "/dev", "/etc", "/home", "/lib", "/lib64", "/media", "/mnt", "/opt", "/proc",
        "/root", "/run", "/sbin", "/srv", "/sys", "/tmp", "/usr", "/usr/bin", "/usr/lib", "/usr/lib64",
        "/usr/libexec", "/usr/local", "/usr/local/lib", "/usr/sbin", "/usr/share", "/var", "/var/lib",
        "/var/tmp",
    }
)  # fmt: skip
"""Folders of everybody's: no plugin's own."""


class Walk(NamedTuple):
    """Where a path leads: the real path, and every symlink on the way as (its own real path, its text)."""

    real: str
    links: tuple[tuple[str, str], ...]


def walk(path: str, lstat: Callable[[str], os.stat_result] = os.lstat) -> Walk:
    """Follow an absolute path by hand; OSError when it leads nowhere, Unconfinable when it never ends.

    `lstat` is how each step is looked at, by its real path.
    """
    if len(path) > LONGEST or "\0" in path:
        raise SandboxUnavailable(f"no file can have the path {path[:64]!r}")
    todo = [name for name in path.split("/") if name][::-1]
    here = ""
    links: list[tuple[str, str]] = []
    while todo:
        name = todo.pop()
        if name == ".":
            continue
        if name == "..":
            here = here.rpartition("/")[0]
            continue
        step = f"{here}/{name}"
        if not stat.S_ISLNK(lstat(step).st_mode):
            here = step
            continue
        try:
            text = os.readlink(step)
        except OSError as error:
            raise _replaced(step) from error
        links.append((step, text))
        if len(links) > MOST_LINKS or len(text) > LONGEST:
            raise SandboxUnavailable(f"too many symlinks on the way from {path!r}")
        if text.startswith("/"):
            here = ""
        todo += [part for part in text.split("/") if part][::-1]
    return Walk(here or "/", tuple(links))


def walk_again(path: str, resolved: str) -> Walk:
    """Follow a path that somebody else has written, and that has been checked as where it led to then.

    Unconfinable when it leads elsewhere by now: what was checked is not what would be shown. A real path
    leads to itself as long as nobody puts a symlink into it.
    """
    walked = walk(path)
    if walked.real != resolved:
        raise _replaced(path)
    return walked


def _replaced(path: str) -> SandboxUnavailable:
    return SandboxUnavailable(
        f"{path} was replaced while it was looked at: it leads elsewhere now",
        hint="if that is meant, remove the plugin and add it again; if not, find out who may write there",
    )


class Word(enum.Enum):
    """Who has named a file."""

    OPERATOR = enum.auto()
    PLUGIN = enum.auto()


class ExposurePolicy:
    """Whose word is enough for what. `code` are the plugin's own folders; `granted` is what it was given;
    all are real paths.

    `parted` are folders that its author has filled as well, and of which it is given only parts.
    """

    def __init__(self, granted: Iterable[str], parted: Iterable[str] = ()) -> None:
        self.code: list[str] = []
        self.parted = tuple(parted)
        self._granted = tuple(granted)

    def is_own(self, real: str) -> bool:
        """Whether it is the plugin's own, and so is there for it."""
        return any(is_beneath(real, own) for own in self.code)

    def is_authors(self, real: str) -> bool:
        """Whether the plugin's author has put it there: what is written in it is the plugin's word."""
        return any(is_beneath(real, folder) for folder in (*self.code, *self.parted))

    def word_after(self, walked: Walk, word: Word) -> Word:
        """Whose word it is what is written at the end of a way that began as somebody's word."""
        places = (walked.real, *(link for link, _ in walked.links))
        return Word.PLUGIN if any(map(self.is_authors, places)) else word

    def may_lead(self, walked: Walk, by_plugin: bool) -> bool:
        """Whether a path may be followed: the operator's to anywhere, the plugin's to what it may name.

        A path is the plugin's from the first symlink of its own on.
        """
        for link, _ in walked.links:
            if self.is_authors(link):
                by_plugin = True
            elif by_plugin and not self.may_pass(os.path.dirname(link)):
                return False
        return not by_plugin or self.may_name(walked.real)

    def may_name(self, real: str) -> bool:
        """Whether the plugin's word is enough for this file."""
        return is_file(real) and self.may_pass(real)

    def may_pass(self, real: str) -> bool:
        """Whether it is the plugin's own, public or granted."""
        return self.is_own(real) or is_public(real) or any(is_beneath(real, path) for path in self._granted)


def is_beneath(path: str, folder: str) -> bool:
    """Of real paths: whether it is the folder, or in it."""
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def is_plain(real: str) -> bool:
    """A regular file or a folder; never a socket, FIFO or device."""
    try:
        mode = os.lstat(real).st_mode
    except OSError:
        return False
    return stat.S_ISREG(mode) or stat.S_ISDIR(mode)


def is_broad(folder: str) -> bool:
    """A folder that holds far more than one plugin's code: everybody's, or this user's home."""
    home = os.path.realpath(os.path.expanduser("~"))
    return folder in BROAD or is_beneath(home, folder) or folder.startswith(("/proc/", "/sys/", "/dev/"))
