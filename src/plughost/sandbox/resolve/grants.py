"""Resolves the files and directories that an operator granted to real paths."""

from __future__ import annotations

import os
from collections.abc import Mapping

import msgspec

from plughost.errors import SandboxUnavailable
from plughost.permissions.access import NONE, Access
from plughost.sandbox.resolve import trusted_files

KERNELS = ("/proc", "/sys", "/dev")


class ResolvedGrants(msgspec.Struct, frozen=True):
    """Granted real paths, and the symlinks that lead to them from the paths as they were written."""

    read: tuple[str, ...] = ()
    write: tuple[str, ...] = ()
    links: tuple[tuple[str, str], ...] = ()


def resolve_grants(
    access: Access,
    allowed: Access = NONE,
    future_dir: str | None = None,
    resolved: Mapping[str, str] | None = None,
) -> ResolvedGrants:
    """Resolve granted paths; SandboxUnavailable for one that is missing, or is neither a file nor a
    directory.

    `allowed` is what the operator wrote: a path below one of these comes from a manifest, and must not lead
    out of it. A path in a writable directory is granted with that directory, and not a second time.
    `future_dir` is a directory that need not exist yet. `resolved` maps paths to where they led when they
    were checked.
    """
    known = resolved or {}
    read = [_resolve(path, known.get(path)) for path in access.read]
    write = [
        trusted_files.Walk(path, ()) if path == future_dir else _resolve(path, known.get(path))
        for path in access.write
    ]
    for path, walked in zip((*access.read, *access.write), (*read, *write), strict=True):
        _check_within(path, walked.real, (*allowed.read, *allowed.write))
    links = {link: text for walked in (*read, *write) for link, text in walked.links}
    writable = [
        path
        for path in dict.fromkeys(walked.real for walked in write)
        if not any(path != other.real and trusted_files.is_beneath(path, other.real) for other in write)
    ]
    readable = [
        path
        for path in dict.fromkeys(walked.real for walked in read)
        if not any(trusted_files.is_beneath(path, folder) for folder in writable)
    ]
    return ResolvedGrants(tuple(readable), tuple(writable), tuple(links.items()))


def _check_within(path: str, real: str, allowed: tuple[str, ...]) -> None:
    above = [folder for folder in allowed if trusted_files.is_beneath(path, folder)]
    if above and not any(trusted_files.is_beneath(real, os.path.realpath(folder)) for folder in above):
        raise SandboxUnavailable(
            f"{path} is in {above[0]}, which is allowed, but leads to {real}, which is not",
            hint=f"if that is intended, allow {real} itself",
        )


def _resolve(path: str, resolved: str | None) -> trusted_files.Walk:
    if not os.path.isabs(path):
        raise SandboxUnavailable(f"the granted path {path!r} is relative", hint="grant an absolute path")
    try:
        walked = trusted_files.walk(path) if resolved is None else trusted_files.walk_again(path, resolved)
    except OSError as error:
        raise SandboxUnavailable(
            f"the granted path {path} cannot be used: {error.strerror}",
            hint="create it, or remove the grant",
        ) from error
    if not trusted_files.is_plain(walked.real):
        raise SandboxUnavailable(
            f"the granted path {path} is neither a file nor a folder",
            hint="sockets, FIFOs and devices cannot be granted",
        )
    if walked.real == "/" or any(trusted_files.is_beneath(walked.real, folder) for folder in KERNELS):
        raise SandboxUnavailable(
            f"the path {path} cannot be granted to a plugin",
            hint="grant the folders it needs, each by name",
        )
    return walked
