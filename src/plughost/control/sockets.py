"""The folder with the control sockets of a user's hosts."""

from __future__ import annotations

import os
import socket
import stat
from pathlib import Path

from plughost._util.temp_dir import shared_temp_dir
from plughost.errors import InvalidSpec

PROBE_TIMEOUT = 5.0
"""Seconds for a host to accept a connection."""


def default_folder() -> Path:
    """The folder with the control sockets of this user's hosts."""
    base = os.environ.get("XDG_RUNTIME_DIR", "")
    return (
        Path(base, "plughost") if os.path.isabs(base) else Path(shared_temp_dir(), f"plughost-{os.getuid()}")
    )


def hosts(folder: Path) -> list[Path]:
    """The sockets of all running hosts in `folder`. Removes stale sockets that killed hosts left behind."""
    _check_private(folder)
    return [path for path in sorted(folder.glob("*.sock")) if _is_alive(path)]


def listen(path: Path) -> socket.socket:
    """A socket that listens at `path`. InvalidSpec if that is impossible."""
    # It listens before it gets its name, so that nobody sees a socket that looks stale.
    # The temporary name is as long as the final one, so that a path that is too long fails here.
    temporary = path.with_suffix(".made")
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        listening.bind(str(temporary))
        listening.listen(socket.SOMAXCONN)
        temporary.replace(path)
    except OSError as error:
        listening.close()
        temporary.unlink(missing_ok=True)
        why = error.strerror or str(error)  # the error for a path that is too long has no errno
        raise InvalidSpec(f"cannot listen on {path}: {why}") from error
    return listening


def _is_alive(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(PROBE_TIMEOUT)
        try:
            probe.connect(str(path))
        except ConnectionRefusedError:  # nobody listens any more
            path.unlink(missing_ok=True)
            return False
        except OSError:
            return False
    return True


def _check_private(folder: Path) -> None:
    """Create the folder; InvalidSpec if another user could put a socket there."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidSpec(
            f"cannot make the folder {folder}: {error.strerror}",
            hint="set XDG_RUNTIME_DIR, or use --socket-dir",
        ) from error
    info = folder.lstat()
    if not stat.S_ISDIR(info.st_mode) or info.st_uid != os.geteuid() or info.st_mode & 0o022:
        raise InvalidSpec(
            f"{folder} is not this user's own folder", hint="set XDG_RUNTIME_DIR, or use --socket-dir"
        )
