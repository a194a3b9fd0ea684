"""A cache of resolved commands: an entry is valid until one of the files that decided it changes."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence

from plughost.sandbox.resolve.command import CommandResolver, ResolvedCommand
from plughost.sandbox.resolve.path_recorder import Stamp, stamp

__all__ = ["ResolvedCommand", "resolve_command"]

MOST_CACHED = 256


def resolve_command(
    command: Sequence[str],
    cwd: str | None,
    env: Mapping[str, str],
    *,
    execute: Iterable[str] = (),
    read: Iterable[str] = (),
    cwd_is_plugin_dir: bool = True,
    command_from_manifest: bool = False,
    path_from_plugin: bool = False,
    excluded_file: str | None = None,
    partial_dirs: tuple[str, ...] = (),
    resolved: Mapping[str, str] | None = None,
) -> ResolvedCommand:
    """Resolve a command, from the cache if possible; `execute` and `read` are what the operator granted
    besides.

    `path_from_plugin`: the PATH in `env` is set by the plugin, and so may only lead to what a plugin may
    name. `partial_dirs` are directories from the plugin's author of which only parts are granted (listed in
    `read`, as real paths). `resolved` maps paths to where they led when they were checked: SandboxUnavailable
    if one leads elsewhere now. LaunchFailed when there is no such program, SandboxUnavailable when it needs
    what only the operator may grant.
    """
    request = (tuple(command), cwd, tuple(sorted(env.items())), tuple(execute), tuple(read))
    resolved_items = tuple(sorted((resolved or {}).items()))
    trust = (
        cwd_is_plugin_dir,
        command_from_manifest,
        path_from_plugin,
        excluded_file,
        partial_dirs,
        resolved_items,
    )
    key = (request, trust, os.environ.get("PATH"), cwd or os.getcwd())
    if (entry := _cache.get(key)) is not None:
        command_files, stamps = entry
        if all(stamp(path) == then for path, then in stamps.items()):
            return command_files
    resolver = CommandResolver(command, cwd, env, tuple(execute), tuple(read), *trust)
    command_files = resolver.run()
    if len(_cache) >= MOST_CACHED:
        _cache.clear()
    _cache[key] = (command_files, resolver.stamps)
    return command_files


_cache: dict[tuple[object, ...], tuple[ResolvedCommand, dict[str, Stamp | None]]] = {}
