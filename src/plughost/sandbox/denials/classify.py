"""Classifies denials: which file, program or host a plugin was refused, and which grant would allow it.

A sandbox refuses much that nobody misses. A denial is reported only if a grant would change it: the file
exists outside, is not open to the plugin, could be granted, and is not one that runtimes probe on their own.
`PROBED` and `SOUGHT_ABOVE` list those: settings of the C library and of runtimes, which run without them, and
files that interpreters look for in every directory above a program. If a plugin really needs one of these,
that is not reported. Pure decisions over values: the caller passes `lstat`.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Mapping

import msgspec

from plughost._util.text import escape_controls
from plughost.errors import SandboxUnavailable
from plughost.permissions.access import endpoint
from plughost.sandbox.denials import connections, grant_hint
from plughost.sandbox.denials.local_fs import Look, walk_local
from plughost.sandbox.denials.visible_access import VisibleAccess, within
from plughost.sandbox.host_dirs import check_private
from plughost.sandbox.resolve.grants import KERNELS
from plughost.sandbox.resolve.trusted_files import is_beneath
from plughost.sandbox.resolve.user_caches import CACHED

KINDS = {"r": "read", "w": "write", "c": "write", "x": "execute", "n": "connect"}

PROBED = re.compile(
    r"/etc/(ld\.so\..*|localtime|timezone|nsswitch\.conf|resolv\.conf|host\.conf|gai\.conf|hosts|services"
    r"|protocols|passwd|group|locale\.\w+|(ssl|pki|ca-certificates|crypto-policies|python[\d.]*|java[\w.-]*)(/.*)?)"
    r"|/usr/(local/)?(lib|share)/(locale|locale-langpack|zoneinfo|ssl|ca-certificates)(/.*)?"
    r"|.*/gconv/.*|.*/libnss_[^/]*|.*/glibc-hwcaps/.*"
)
SOUGHT_ABOVE = re.compile(
    r"package\.json|pyvenv\.cfg|pybuilddir\.txt|python[\d.]*\._pth|bunfig\.toml|deno\.jsonc?|tsconfig\.json"
)
INSTALLED = "it is in a user's private cache: install it for all users, in a folder such as /usr/local/bin"


class Denial(msgspec.Struct, frozen=True):
    """One denial that is worth reporting."""

    kind: str
    """read | write | execute | connect"""
    real: str
    path: str
    """The path as the plugin named it: a grant by this name makes the file visible by this name."""
    why: str = "not granted"
    helps: str = ""
    """The remedy, when no grant of this path helps."""


def parse(record: bytes) -> tuple[str, str] | None:
    """Parse a record of the watcher (`launcher/watch.h`): its letter, and an absolute normalised path or an
    address. None for anything else."""
    letter, path = os.fsdecode(record[:1]), os.fsdecode(record[1:])
    if letter == "n":
        return None if connections.parse(path) is None else (letter, path)
    is_plain = path[:1] == "/" != path and path[:2] != "//" and os.path.normpath(path) == path
    return (letter, path) if letter in KINDS and is_plain else None


def needs_lookup(letter: str, path: str, visible: VisibleAccess) -> bool:
    """A first filter that needs no file system access: False for what is never reported."""
    if letter == "n":
        return visible.connect is not None
    return not (
        within(path, KERNELS)
        or (letter == "r" and PROBED.fullmatch(path))
        or (letter != "x" and visible.covers(KINDS[letter], path))
    )


def classify_denial(
    letter: str, path: str, visible: VisibleAccess, lstat: Look, interpreter: Callable[[str], str | None]
) -> Denial | None:
    """The denial to report for a record, or None. `interpreter` returns the interpreter of a script: a
    program that may be executed can still fail because its interpreter is not granted."""
    if letter == "n":
        return _classify_connection(path, visible)
    walked = walk_local(path, lstat)
    if walked is None and letter == "c":
        path = os.path.dirname(path)
        walked = walk_local(path, lstat)
    if walked is None or not _is_grantable(walked.real, visible):
        return None
    kind, real = KINDS[letter], walked.real
    mode = lstat(real).st_mode
    if kind == "execute" and not (stat.S_ISREG(mode) and mode & 0o111):
        return None
    if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
        return None
    if kind == "execute" and visible.covers(kind, real):
        behind = interpreter(real)
        return None if behind is None else classify_denial(letter, behind, visible, lstat, lambda _: None)
    if visible.covers(kind, real) or (kind == "read" and _is_probed(real, visible)):
        return None
    if kind == "write" and (
        within(real, visible.built) or any(is_beneath(own, real) for own in visible.built)
    ):
        return None
    if CACHED.fullmatch(real) or CACHED.fullmatch(path):
        return Denial(kind, real, path, helps=INSTALLED) if kind == "execute" else None
    return Denial(kind, real, path)


def _classify_connection(path: str, visible: VisibleAccess) -> Denial | None:
    endpoint = connections.parse(path)
    if endpoint is None or visible.connect is None:
        return None
    place, why, helps = connections.classify_connection(endpoint, visible.connect)
    path = (
        connections.ANY_NAME
        if endpoint.port == connections.NAME_SERVER
        else grant_hint.format_endpoint(endpoint)
    )
    return Denial("connect", place, path, why, helps)


def _is_grantable(real: str, visible: VisibleAccess) -> bool:
    try:
        check_private((real,), visible.private)
    except SandboxUnavailable:
        return False
    return real != "/" and not within(real, KERNELS)


def _is_probed(real: str, visible: VisibleAccess) -> bool:
    folder, name = os.path.split(real)
    above = any(is_beneath(program, folder) for program in visible.programs)
    return PROBED.fullmatch(real) is not None or (above and SOUGHT_ABOVE.fullmatch(name) is not None)


def format_denial(denial: Denial | None, granting: Mapping[str, str]) -> tuple[str, str]:
    """The denial and its remedy as text for people. `granting` are the contract's own words for grants; a
    denial of None stands for all further ones, which are not reported one by one."""
    if denial is None:
        return (
            "further files, programs and hosts were denied",
            "there are too many to list: allow those above, or a whole folder",
        )
    return escape_controls(f"{denial.kind} {denial.real}: {denial.why}"), _remedy(denial, granting)


def _remedy(denial: Denial, granting: Mapping[str, str]) -> str:
    if any("\ud800" <= letter <= "\udfff" for letter in denial.path):
        return "its name is not valid UTF-8, so no grant can name it: rename it, or allow a parent folder"
    if denial.helps:
        return denial.helps
    is_endpoint = denial.kind == "connect" and denial.path != connections.ANY_NAME
    item = endpoint(denial.path) if is_endpoint else denial.path
    return str(grant_hint.grant_hint(denial.kind, item, granting))
