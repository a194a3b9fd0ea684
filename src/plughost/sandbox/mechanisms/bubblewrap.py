"""Builds bubblewrap's command line: which paths are mounted in a sandbox, and where.

Every mount adds a quarter of a millisecond to a cold start, so shared libraries are mounted by directory;
Landlock then restricts the plugin to those libraries that it needs (`inner.py`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

import msgspec

from plughost.sandbox.resolve.trusted_files import is_beneath

INNER = "/run/plughost/inner"
"""The path of `plughost-inner` inside the sandbox."""

_LOADER_VARIABLES = re.compile(r"LD_.*|GLIBC_TUNABLES|GCONV_PATH|GETCONF_DIR|LOCPATH|MALLOC_.*|NLSPATH")


class MountView(msgspec.Struct, frozen=True, kw_only=True):
    """The mounts of a sandbox. Paths are real, each mounted at the same path unless `remapped` maps it
    elsewhere."""

    read: tuple[str, ...]
    write: tuple[str, ...] = ()
    remapped: tuple[tuple[str, str], ...] = ()
    """Read-only mounts, as (outside, inside)."""
    links: tuple[tuple[str, str], ...] = ()
    scratch: int | None = None
    """The size of /tmp in bytes."""
    shared: int | None = None
    """The size of /dev/shm in bytes."""
    writable_tmp: bool = True
    """Whether /tmp and /dev/shm can be written; else they are empty and read-only."""
    listable: tuple[str, ...] = ()
    """Read-only directories that hold nothing but what is mounted in them."""
    cwd: str = "/tmp"
    networked: bool = False
    """Whether the launcher has already created the plugin's own network namespace, with a forwarder to the
    egress proxy."""


def build_argv(
    view: MountView, bubblewrap: str, version: tuple[int, ...], env: Mapping[str, str]
) -> tuple[str, ...]:
    """Bubblewrap's command line, without the program that it runs.

    Variables are passed in the environment and not on the command line, which every user can read. Only those
    that bubblewrap's own dynamic loader would obey are set by option, inside.
    """
    found = [bubblewrap, "--unshare-all", "--unshare-user"]
    if version >= (0, 8):
        found += ["--disable-userns"]
    if view.networked:
        found += ["--share-net"]
    found += ["--die-with-parent", "--new-session", "--hostname", "plughost"]
    for name in sorted(loader_variables(env)):
        found += ["--setenv", name, env[name]]
    closed = [] if view.writable_tmp else ["/dev/shm", "/tmp"]
    found += ["--proc", "/proc", "--dev", "/dev", *_sized(view.shared, "/dev/shm"), "--remount-ro", "/dev"]
    found += _sized(view.scratch, "/tmp")
    shown = mounts(view)
    for folder in view.listable if view.writable_tmp else ():
        if is_beneath(folder, "/tmp") and not any(is_beneath(folder, path) for path in shown):
            found += ["--tmpfs", folder]  # else it would be part of the writable /tmp
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
    """The mounts by their path inside: the option and the path outside."""
    wanted = {inside: ("--ro-bind", outside) for outside, inside in view.remapped}
    wanted |= {path: ("--ro-bind", path) for path in view.read}
    wanted |= {path: ("--bind", path) for path in view.write}
    return {inside: wanted[inside] for inside in sorted(outermost(wanted))}


def loader_variables(env: Mapping[str, str]) -> set[str]:
    """Environment variables that the dynamic loader and the C library obey: they would change the sandbox
    helpers, too."""
    return {name for name in env if _LOADER_VARIABLES.fullmatch(name)}


def outermost(mounts: Mapping[str, tuple[str, str]]) -> list[str]:
    """Drop each mount that another one includes already, at the same path and at least as writable."""
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
