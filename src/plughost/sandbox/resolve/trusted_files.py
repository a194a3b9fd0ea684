"""The exposure policy: which files of this machine a plugin may see although its operator has not named them.

The contents of a plugin's directory are hostile: symlinks, shebangs and program headers name whatever they
like. What they name is exposed only when it is a public file: everybody may read it, and only root can have
put it there. Never a directory: that a directory is public says nothing about its contents. So a plugin that
asks for more learns nothing that any user of the machine could not.
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
"""Directories shared by many programs or users: none is a plugin's own."""


class Walk(NamedTuple):
    """A resolved path: the real path, and every symlink on the way as (its own real path, its target)."""

    real: str
    links: tuple[tuple[str, str], ...]


def walk(path: str, lstat: Callable[[str], os.stat_result] = os.lstat) -> Walk:
    """Resolve an absolute path step by step; OSError when it does not exist, SandboxUnavailable for too many
    symlinks.

    `lstat` is called for each step, with its real path.
    """
    if len(path) > LONGEST or "\0" in path:
        raise SandboxUnavailable(f"{path[:64]!r} is not a valid file path")
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
    """Resolve a path that was resolved and checked before.

    SandboxUnavailable when it leads elsewhere by now: what was checked is not what would be exposed. A real
    path leads to itself as long as nobody puts a symlink into it.
    """
    walked = walk(path)
    if walked.real != resolved:
        raise _replaced(path)
    return walked


def _replaced(path: str) -> SandboxUnavailable:
    return SandboxUnavailable(
        f"{path} was replaced while it was being checked: it leads to another place now",
        hint="if that is intended, remove the plugin and add it again; if not, find out who can write there",
    )


class Word(enum.Enum):
    """Who has named a file."""

    OPERATOR = enum.auto()
    PLUGIN = enum.auto()


class ExposurePolicy:
    """Decides which files a plugin's files may name. `code` are the plugin's own directories; `granted` is
    what it was granted; all are real paths.

    `partial_dirs` are directories from the plugin's author, too, of which only parts are granted.
    """

    def __init__(self, granted: Iterable[str], partial_dirs: Iterable[str] = ()) -> None:
        self.code: list[str] = []
        self.partial_dirs = tuple(partial_dirs)
        self._granted = tuple(granted)

    def is_own(self, real: str) -> bool:
        """Whether the path is in the plugin's own directories, and so visible to it."""
        return any(is_beneath(real, own) for own in self.code)

    def is_authors(self, real: str) -> bool:
        """Whether the path comes from the plugin's author: its contents count as the plugin's word."""
        return any(is_beneath(real, folder) for folder in (*self.code, *self.partial_dirs))

    def word_after(self, walked: Walk, word: Word) -> Word:
        """Who counts as the author of what is written at the end of a path that `word` has named."""
        places = (walked.real, *(link for link, _ in walked.links))
        return Word.PLUGIN if any(map(self.is_authors, places)) else word

    def may_lead(self, walked: Walk, by_plugin: bool) -> bool:
        """Whether a path may be followed: the operator's to anywhere, the plugin's to what it may name.

        A path is the plugin's from the first symlink in its own directories on.
        """
        for link, _ in walked.links:
            if self.is_authors(link):
                by_plugin = True
            elif by_plugin and not self.may_pass(os.path.dirname(link)):
                return False
        return not by_plugin or self.may_name(walked.real)

    def may_name(self, real: str) -> bool:
        """Whether the plugin may name this file."""
        return is_file(real) and self.may_pass(real)

    def may_pass(self, real: str) -> bool:
        """Whether the path is the plugin's own, public or granted."""
        return self.is_own(real) or is_public(real) or any(is_beneath(real, path) for path in self._granted)


def is_beneath(path: str, folder: str) -> bool:
    """Whether a real path is the directory, or in it."""
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def is_plain(real: str) -> bool:
    """Whether the path is a regular file or a directory; never a socket, FIFO or device."""
    try:
        mode = os.lstat(real).st_mode
    except OSError:
        return False
    return stat.S_ISREG(mode) or stat.S_ISDIR(mode)


def is_broad(folder: str) -> bool:
    """Whether a directory holds far more than one plugin's code: a system directory, or this user's home."""
    home = os.path.realpath(os.path.expanduser("~"))
    return folder in BROAD or is_beneath(home, folder) or folder.startswith(("/proc/", "/sys/", "/dev/"))
