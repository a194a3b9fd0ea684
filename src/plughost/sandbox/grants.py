"""The files and folders that an operator granted, as they really are."""

from __future__ import annotations

import os
from collections.abc import Iterable

import msgspec

from plughost.base.errors import Unconfinable
from plughost.guard.powers import Powers
from plughost.sandbox import trust

KERNELS = ("/proc", "/sys", "/dev")


class Granted(msgspec.Struct, frozen=True):
    """Real paths, and the symlinks that lead to them from those that were written."""

    read: tuple[str, ...] = ()
    write: tuple[str, ...] = ()
    links: tuple[tuple[str, str], ...] = ()


def granted(powers: Powers) -> Granted:
    """Unconfinable for what cannot be granted: it is not there, or is no file or folder."""
    links: dict[str, str] = {}
    return Granted(_real(powers.read, links), _real(powers.write, links), tuple(links.items()))


def _real(paths: Iterable[str], links: dict[str, str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(_one(path, links) for path in paths))


def _one(path: str, links: dict[str, str]) -> str:
    if not os.path.isabs(path):
        raise Unconfinable(f"the granted path {path!r} is relative", hint="grant it with its whole path")
    try:
        walked = trust.walk(path)
    except OSError as error:
        raise Unconfinable(
            f"the granted path {path} cannot be given: {error.strerror}",
            hint="create it, or take the grant back",
        ) from error
    if not trust.is_plain(walked.real):
        raise Unconfinable(
            f"the granted path {path} is no file and no folder",
            hint="sockets, FIFOs and devices are not given to a plugin",
        )
    if walked.real == "/" or any(trust.is_beneath(walked.real, folder) for folder in KERNELS):
        raise Unconfinable(
            f"the granted path {path} is no plugin's to have", hint="grant the folders it needs, each by name"
        )
    links.update(walked.links)
    return walked.real
