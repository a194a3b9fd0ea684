"""Directories that belong to hosts alone: no plugin is granted one, a part of one, or a directory around one.

Whoever may read a directory may connect to every socket below it. These directories hold the egress proxy
sockets of other plugins and the control sockets of running hosts.
"""

from __future__ import annotations

import os
from collections.abc import Iterable

from plughost._util.temp_dir import shared_temp_dir
from plughost.errors import SandboxUnavailable
from plughost.sandbox.resolve.trusted_files import is_beneath
from plughost.sandbox.run_dir import PREFIX


def bases(run_dir_base: str) -> tuple[str, ...]:
    """The directories in which hosts of this user create their run directories, as real paths; `run_dir_base`
    is the one that this host uses."""
    known = (run_dir_base, os.environ.get("XDG_RUNTIME_DIR", ""), shared_temp_dir())
    return tuple(dict.fromkeys(os.path.realpath(path) for path in known if os.path.isabs(path)))


def check_private(paths: Iterable[str], bases: Iterable[str]) -> None:
    """Raises SandboxUnavailable for a real path that is, contains or lies in a directory of the hosts."""
    hosts = tuple(bases)
    for path in paths:
        for base in hosts:
            if is_beneath(base, path):
                raise SandboxUnavailable(
                    f"{path} cannot be granted: hosts keep the sockets of other plugins in {base}",
                    hint="grant the subfolders that it needs, each by name; "
                    "or set TMPDIR to another folder for the host",
                )
            if is_beneath(path, base) and _is_hosts(path[len(base.rstrip("/")) + 1 :].partition("/")[0]):
                raise SandboxUnavailable(f"{path} cannot be granted: it belongs to the hosts themselves")


def _is_hosts(name: str) -> bool:
    return name.startswith(PREFIX) or name in ("plughost", f"plughost-{os.getuid()}")
