"""Parser of `allow` and `limits` in plughost.toml: `read = ["~/notes"]`, `memory = "256M"`."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence

from plughost._util.nearest import did_you_mean
from plughost.errors import InvalidSpec
from plughost.permissions.access import NONE, Access, Endpoint, ResourceLimits, endpoint

KINDS = ("read", "write", "execute", "connect")
_SIZE = re.compile(r"(\d{1,15})\s*([KMGT]?)(?:i?B)?", re.I)
_UNITS = {"": 0, "k": 10, "m": 20, "g": 30, "t": 40}


def parse_access(words: Mapping[str, Sequence[str]], base: str) -> Access:
    """Parse the table `allow`: paths and hosts by read, write, execute, connect. Relative paths start at
    `base`."""
    unknown = words.keys() - set(KINDS)
    if unknown:
        first = sorted(unknown)[0]
        raise InvalidSpec(f"unknown kind of access {first!r}{did_you_mean(first, KINDS)}")
    return Access(
        read=_unique(words.get("read", ()), lambda word: _path(word, base)),
        write=_unique(words.get("write", ()), lambda word: _path(word, base)),
        execute=_unique(words.get("execute", ()), lambda word: _program(word, base)),
        connect=_endpoints(words.get("connect", ())),
    )


def union(first: Access, second: Access) -> Access:
    """The union of two accesses."""
    if second == NONE:
        return first
    return Access(
        read=_unique((*first.read, *second.read)),
        write=_unique((*first.write, *second.write)),
        execute=_unique((*first.execute, *second.execute)),
        connect=tuple(dict.fromkeys((*first.connect, *second.connect))),
    )


def parse_limits(table: Mapping[str, int | str | None]) -> ResourceLimits:
    """Parse the table `limits`. Sizes are in bytes, or with K, M, G, T; `"none"` is no limit."""
    unknown = table.keys() - set(ResourceLimits.__struct_fields__)
    if unknown:
        first = sorted(unknown)[0]
        raise InvalidSpec(f"unknown limit {first!r}{did_you_mean(first, ResourceLimits.__struct_fields__)}")
    return ResourceLimits(**{name: _amount(name, value) for name, value in table.items()})


def _unique(words: Sequence[str], convert: Callable[[str], str] = str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(convert(word) for word in words))


def _path(word: str, base: str) -> str:
    if not word or "\0" in word:
        raise InvalidSpec(f"{word!r} is not a path")
    path = os.path.normpath(os.path.join(base, os.path.expanduser(word)))
    if path == "/" or not os.path.isabs(path):
        raise InvalidSpec(
            f"{word!r} cannot be allowed: name a folder or a file, not the root of the file system"
        )
    return path


def _program(word: str, base: str) -> str:
    if os.sep in word:
        return _path(word, base)
    import shutil

    found = shutil.which(word)
    if found is None:
        raise InvalidSpec(f"the program {word!r} is not on PATH; give its path")
    return os.path.abspath(found)


def _endpoints(words: Sequence[str]) -> tuple[Endpoint, ...]:
    return tuple(dict.fromkeys(map(endpoint, words)))


def _amount(name: str, value: int | str | None) -> int | None:
    if value is None or value == "none":
        return None
    match = _SIZE.fullmatch(value.strip()) if isinstance(value, str) else None
    amount = int(match[1]) << _UNITS[match[2].lower()] if match else value
    if isinstance(amount, bool) or not isinstance(amount, int) or not 1 <= amount < 1 << 50:
        raise InvalidSpec(
            f'{name} = {value!r} is not a limit: write a number, a size such as 256M, or "none"'
        )
    return amount
