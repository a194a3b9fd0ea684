"""The last step inside a sandbox, in the words of `plughost-inner`: watcher, limits, Landlock, seccomp."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec


class InnerRules(msgspec.Struct, frozen=True, kw_only=True):
    """What Landlock lets through, by paths as they are inside."""

    read: tuple[str, ...] = ()
    write: tuple[str, ...] = ()
    execute: tuple[str, ...] = ()
    list: tuple[str, ...] = ()
    """Folders whose names, and those of the folders below them, can be listed."""
    connect: tuple[int, ...] = ()
    """TCP ports."""
    same: tuple[tuple[str, str], ...] = ()
    """What must be there, as (path, identity)."""
    made: tuple[str, ...] = ()
    """Of those that may be read or written, folders in whose place the machine has others."""


def build_inner_argv(
    rules: InnerRules,
    limits: Mapping[str, int],
    *,
    cwd: str | None = None,
    offline: bool = False,
    uncounted: bool = False,
    lockless: bool = False,
) -> tuple[str, ...]:
    """All that is between the program's own path and `--`. `offline` is without a network namespace,
    `uncounted` without a control group that counts its memory, and `lockless` without locks and watches of
    files."""
    found = ["watch", ":".join(rules.made)]
    found += ["cwd", cwd] if cwd is not None else []
    for path, identity in rules.same:
        found += ["same", path, identity]
    for name, value in limits.items():
        found += ["limit", name, str(value)]
    found += _each("list", rules.list)
    found += _each("execute", rules.execute)
    found += _each("write", rules.write)
    found += _each("read", rules.read)
    found += _each("connect", map(str, rules.connect))
    found += ["landlock", "offline" if offline else "seccomp"]
    found += ["uncounted"] if uncounted else []
    return (*found, *(["lockless"] if lockless else []))


def _each(word: str, items: Iterable[str]) -> list[str]:
    return [part for item in dict.fromkeys(items) for part in (word, item)]
