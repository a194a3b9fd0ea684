"""Which file or program a plugin was refused, and which grant would allow it: a decision over values.

A sandbox refuses much that nobody misses. Told is what a grant would change: it is there outside, it is not
open to the plugin, it could be granted, and no runtime looks for it on its own account. The last is what
`PROBED` and `SOUGHT_ABOVE` are: settings of the C library and of runtimes, which those do without, and what
interpreters look for in every folder above a program. If a plugin really wants one of these, it is not told.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Mapping

import msgspec

from plughost.base.errors import Unconfinable
from plughost.base.text import visible
from plughost.sandbox import remedy
from plughost.sandbox.grants import KERNELS
from plughost.sandbox.private import check_private
from plughost.sandbox.quiet import Look, walk_quietly
from plughost.sandbox.reach import Reach, within
from plughost.sandbox.trust import is_beneath

KINDS = {"r": "read", "w": "write", "c": "write", "x": "execute"}

PROBED = re.compile(
    r"/etc/(ld\.so\..*|localtime|timezone|nsswitch\.conf|resolv\.conf|host\.conf|gai\.conf|hosts|services"
    r"|protocols|passwd|group|locale\.\w+|(ssl|pki|ca-certificates|crypto-policies|python[\d.]*|java[\w.-]*)(/.*)?)"
    r"|/usr/(local/)?(lib|share)/(locale|locale-langpack|zoneinfo|ssl|ca-certificates)(/.*)?"
    r"|.*/gconv/.*|.*/libnss_[^/]*|.*/glibc-hwcaps/.*"
)
SOUGHT_ABOVE = re.compile(
    r"package\.json|pyvenv\.cfg|pybuilddir\.txt|python[\d.]*\._pth|bunfig\.toml|deno\.jsonc?|tsconfig\.json"
)


class Denial(msgspec.Struct, frozen=True):
    kind: str
    """read | write | execute"""
    real: str
    path: str
    """The same as the plugin named it: granted by this name, it is there by this name."""


def parse(record: bytes) -> tuple[str, str] | None:
    """A record of the watcher's (`launcher/watch.h`): its letter and a path without dots; None for others."""
    letter, path = os.fsdecode(record[:1]), os.fsdecode(record[1:])
    is_plain = path[:1] == "/" != path and path[:2] != "//" and os.path.normpath(path) == path
    return (letter, path) if letter in KINDS and is_plain else None


def is_worth_a_look(letter: str, path: str, reach: Reach) -> bool:
    """What can be said without looking."""
    return not (
        within(path, KERNELS)
        or (letter == "r" and PROBED.fullmatch(path))
        or (letter != "x" and reach.covers(KINDS[letter], path))
    )


def judge(
    letter: str, path: str, reach: Reach, lstat: Look, interpreter: Callable[[str], str | None]
) -> Denial | None:
    """`interpreter` tells what a script is run by: a program that is there may fail for want of that."""
    walked = walk_quietly(path, lstat)
    if walked is None and letter == "c":
        path = os.path.dirname(path)
        walked = walk_quietly(path, lstat)
    if walked is None or not _is_grantable(walked.real, reach):
        return None
    kind, real = KINDS[letter], walked.real
    mode = lstat(real).st_mode
    if kind == "execute" and not (stat.S_ISREG(mode) and mode & 0o111):
        return None
    if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
        return None
    if kind == "execute" and reach.covers(kind, real):
        behind = interpreter(real)
        return None if behind is None else judge(letter, behind, reach, lstat, lambda _: None)
    if reach.covers(kind, real) or (kind == "read" and _is_probed(real, reach)):
        return None
    if kind == "write" and (within(real, reach.built) or any(is_beneath(own, real) for own in reach.built)):
        return None
    return Denial(kind, real, path)


def _is_grantable(real: str, reach: Reach) -> bool:
    try:
        check_private((real,), reach.private)
    except Unconfinable:
        return False
    return real != "/" and not within(real, KERNELS)


def _is_probed(real: str, reach: Reach) -> bool:
    folder, name = os.path.split(real)
    above = any(is_beneath(program, folder) for program in reach.programs)
    return PROBED.fullmatch(real) is not None or (above and SOUGHT_ABOVE.fullmatch(name) is not None)


def told(denial: Denial | None, granting: Mapping[str, str]) -> tuple[str, str]:
    """What was refused and what would allow it, for people. `granting` are the contract's own words; None
    stands for what is not told one by one."""
    if denial is None:
        return "more files and programs: not granted", "too many to be told: allow those above, or a folder"
    return visible(f"{denial.kind} {denial.real}: not granted"), _remedy(denial, granting)


def _remedy(denial: Denial, granting: Mapping[str, str]) -> str:
    if any("\ud800" <= letter <= "\udfff" for letter in denial.path):
        return "no grant can spell its name: rename it, or allow a folder above it"
    return str(remedy.words(denial.kind, denial.path, granting))
