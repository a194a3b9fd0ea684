"""A sandbox in bubblewrap's words: what is visible, and where.

Every mount costs a cold start a quarter of a millisecond, so libraries come by the folder; Landlock holds the
plugin to those of them that it needs (`inner.py`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

import msgspec

from plughost.sandbox.resolve.trusted_files import is_beneath

INNER = "/run/plughost/inner"
"""Where the last step is inside."""

_OBEYED = re.compile(r"LD_.*|GLIBC_TUNABLES|GCONV_PATH|GETCONF_DIR|LOCPATH|MALLOC_.*|NLSPATH")


class MountView(msgspec.Struct, frozen=True, kw_only=True):
    """What there is inside. Mounts are real paths, each in its own place unless `placed` says otherwise."""

    read: tuple[str, ...]
    write: tuple[str, ...] = ()
    placed: tuple[tuple[str, str], ...] = ()
    """Read-only, as (outside, inside)."""
    links: tuple[tuple[str, str], ...] = ()
    scratch: int | None = None
    """Bytes of /tmp."""
    shared: int | None = None
    """Bytes of /dev/shm."""
    writable_tmp: bool = True
    """Whether /tmp and /dev/shm can be written; else they are there, and empty."""
    listable: tuple[str, ...] = ()
    """Folders that hold what is mounted in them and nothing else, and cannot be written."""
    cwd: str = "/tmp"
    networked: bool = False
    """There is a network already, of its own: the launcher made it, with a way out."""


def build_argv(
    view: MountView, bubblewrap: str, version: tuple[int, ...], env: Mapping[str, str]
) -> tuple[str, ...]:
    """Bubblewrap's command up to and without the program it runs.

    Variables come with the environment, not on the command line, which every user can read; only those
    that bubblewrap's own loader would obey are handed over to be set inside.
    """
    found = [bubblewrap, "--unshare-all", "--unshare-user"]
    if version >= (0, 8):
        found += ["--disable-userns"]
    if view.networked:
        found += ["--share-net"]
    found += ["--die-with-parent", "--new-session", "--hostname", "plughost"]
    for name in sorted(obeyed(env)):
        found += ["--setenv", name, env[name]]
    closed = [] if view.writable_tmp else ["/dev/shm", "/tmp"]
    found += ["--proc", "/proc", "--dev", "/dev", *_sized(view.shared, "/dev/shm"), "--remount-ro", "/dev"]
    found += _sized(view.scratch, "/tmp")
    shown = mounts(view)
    for folder in view.listable if view.writable_tmp else ():
        if is_beneath(folder, "/tmp") and not any(is_beneath(folder, path) for path in shown):
            found += ["--tmpfs", folder]  # else it would be a part of that /tmp, and writable
            closed.append(folder)
    for inside, how in shown.items():
        found += [*how, inside]
    for link, text in sorted(view.links):
        if not any(is_beneath(link, path) for path in shown):
            found += ["--symlink", text, link]
    for folder in closed:
        found += ["--remount-ro", folder]
    return (*found, "--chdir", view.cwd, "--remount-ro", "/", "--")


def mounts(view: MountView) -> dict[str, tuple[str, str]]:
    """What is mounted: by its place inside, how and from where."""
    wanted = {inside: ("--ro-bind", outside) for outside, inside in view.placed}
    wanted |= {path: ("--ro-bind", path) for path in view.read}
    wanted |= {path: ("--bind", path) for path in view.write}
    return {inside: wanted[inside] for inside in sorted(outermost(wanted))}


def obeyed(env: Mapping[str, str]) -> set[str]:
    """The variables that change what a dynamic program is, and so the sandbox itself if it saw them."""
    return {name for name in env if _OBEYED.fullmatch(name)}


def outermost(mounts: Mapping[str, tuple[str, str]]) -> list[str]:
    """Without those that another one shows already, in the same place and the same way or more freely."""
    own = {path: how for path, (how, outside) in mounts.items() if outside == path}
    return [
        path
        for path, (how, outside) in mounts.items()
        if outside != path
        or not any(
            path != other and is_beneath(path, other) and (how == "--ro-bind" or own[other] == "--bind")
            for other in own
        )
    ]


def _sized(size: int | None, place: str) -> Iterable[str]:
    return ("--tmpfs", place) if size is None else ("--size", str(size), "--tmpfs", place)
