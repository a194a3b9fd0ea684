"""What hosts keep for themselves: no plugin is given a folder that holds it, nor any part of it.

Whoever may read a folder may connect to every socket below it; there are the ways out of other plugins, and
the sockets by which running hosts are controlled.
"""

from __future__ import annotations

import os
from collections.abc import Iterable

from plughost._util.temp_dir import shared_temp_dir
from plughost.errors import SandboxUnavailable
from plughost.sandbox.resolve.trusted_files import is_beneath
from plughost.sandbox.run_dir import PREFIX


def bases(quarters: str) -> tuple[str, ...]:
    """The folders in which hosts of this user settle, as real paths; `quarters` is where this one has."""
    known = (quarters, os.environ.get("XDG_RUNTIME_DIR", ""), shared_temp_dir())
    return tuple(dict.fromkeys(os.path.realpath(path) for path in known if os.path.isabs(path)))


def check_private(paths: Iterable[str], bases: Iterable[str]) -> None:
    """Unconfinable for a real path of which something is the hosts'."""
    hosts = tuple(bases)
    for path in paths:
        for base in hosts:
            if is_beneath(base, path):
                raise SandboxUnavailable(
                    f"no plugin is given {path}: hosts keep the sockets of other plugins in {base}",
                    hint="give it the folders below that it needs, each by name; "
                    "or set TMPDIR to another folder for the host",
                )
            if is_beneath(path, base) and _is_hosts(path[len(base.rstrip("/")) + 1 :].partition("/")[0]):
                raise SandboxUnavailable(f"no plugin is given {path}: it is the hosts' own")


def _is_hosts(name: str) -> bool:
    return name.startswith(PREFIX) or name in ("plughost", f"plughost-{os.getuid()}")
