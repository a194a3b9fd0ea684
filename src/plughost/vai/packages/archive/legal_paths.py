"""Legal paths of files in a package: only those that mean the same file on every operating system."""

from __future__ import annotations

import os
import re
import unicodedata

from plughost.vai.packages.archive.limits import DEFAULT_LIMITS, PackageLimits

_FORBIDDEN = re.compile(r'[<>:"|?*\\]')
_DEVICES = re.compile(r"(?:con|prn|aux|nul|com[0-9¹²³]|lpt[0-9¹²³])(?:\.|$)", re.I)


def from_disk(name: str) -> str:
    """A file name as UTF-8 text, whatever the locale's encoding is."""
    return os.fsencode(name).decode(errors="surrogateescape")


def to_disk(name: str) -> str:
    """The reverse of `from_disk`: a package's file name as Python spells it on this machine."""
    return os.fsdecode(name.encode(errors="surrogateescape"))


def path_problem(path: str, limits: PackageLimits = DEFAULT_LIMITS) -> str | None:
    """Why a path cannot be in a package; None when it can."""
    try:
        encoded = path.encode()
    except UnicodeEncodeError:
        return "it is not UTF-8"
    steps = path.split("/")
    if not path or path.startswith("/"):
        return "it is not inside the package"
    if len(encoded) > limits.path_bytes:
        return f"it is longer than {limits.path_bytes} bytes"
    if len(steps) > limits.depth:
        return f"it is more than {limits.depth} levels deep"
    return next((why for step in steps if (why := _step_problem(step))), None)


def _step_problem(step: str) -> str | None:
    if step in ("", ".", ".."):
        return "it has empty, `.` or `..` parts"
    if not step.isprintable():
        return "it has characters that cannot be printed"
    if found := _FORBIDDEN.search(step):
        return f"some systems do not allow {found[0]} in a name"
    if step[-1] in ". ":
        return "some systems drop a dot or a space at the end of a name"
    if _DEVICES.match(step):
        return "it is a device name on some systems"
    if unicodedata.normalize("NFC", step) != step:
        return "it is not in Unicode NFC form"
    return None


class Listing:
    """Checks the paths of one package one by one: in ascending order, and no two that collide on some
    system."""

    def __init__(self, limits: PackageLimits = DEFAULT_LIMITS) -> None:
        self._limits = limits
        self._seen: dict[str, tuple[str, bool]] = {}
        self._last = b""
        self._count = 0

    def add(self, path: str) -> None:
        """Adds a path; ValueError says why it is not allowed."""
        if why := path_problem(path, self._limits):
            raise ValueError(why)
        encoded = path.encode()
        if encoded <= self._last:
            raise ValueError("it is listed twice or out of order")
        self._last = encoded
        self._count += 1
        if self._count > self._limits.files:
            raise ValueError(f"a package holds at most {self._limits.files} files")
        steps = path.split("/")
        for depth in range(1, len(steps)):
            self._add("/".join(steps[:depth]), is_folder=True)
        self._add(path, is_folder=False)

    def _add(self, path: str, *, is_folder: bool) -> None:
        folded = unicodedata.normalize("NFC", path.casefold())
        spelled, was_folder = self._seen.setdefault(folded, (path, is_folder))
        if spelled != path:
            raise ValueError(f"on some systems it is the same as {spelled}")
        if was_folder != is_folder:
            raise ValueError("it is both a file and a folder")
