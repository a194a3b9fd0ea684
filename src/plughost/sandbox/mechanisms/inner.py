"""Builds the arguments of `plughost-inner`, the last step inside a sandbox: watcher, limits, Landlock,
seccomp."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec


class InnerRules(msgspec.Struct, frozen=True, kw_only=True):
    """The Landlock rules, by paths as they are inside."""

    read: tuple[str, ...] = ()
    write: tuple[str, ...] = ()
    execute: tuple[str, ...] = ()
    list: tuple[str, ...] = ()
    """Directories whose entries, and those of the directories below, can be listed."""
    connect: tuple[int, ...] = ()
    """TCP ports."""
    identities: tuple[tuple[str, str], ...] = ()
    """Files that must be unchanged, as (path, identity)."""
    made: tuple[str, ...] = ()
    """Those of the readable and writable directories that replace the machine's own at the same path."""


def build_inner_argv(
    rules: InnerRules,
    limits: Mapping[str, int],
    *,
    cwd: str | None = None,
    offline: bool = False,
    uncounted: bool = False,
    lockless: bool = False,
) -> tuple[str, ...]:
    """The arguments between the program's own path and `--`. `offline`: there is no network namespace, so
    seccomp refuses sockets. `uncounted`: no control group counts its memory. `lockless`: files cannot be
    locked or watched."""
    found = ["watch", ":".join(rules.made)]
    found += ["cwd", cwd] if cwd is not None else []
    for path, identity in rules.identities:
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
