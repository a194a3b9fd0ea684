"""The folder with the control sockets of a user's hosts."""

from __future__ import annotations

import os
import socket
import stat
from pathlib import Path

from plughost._util.temp_dir import shared_temp_dir
from plughost.control.credentials import OWNERS
from plughost.errors import InvalidSpec

PROBE_TIMEOUT = 5.0
"""Seconds for a host to accept a connection."""
_OWN_FOLDER = f"name a folder of your own with --socket-dir, or set XDG_RUNTIME_DIR; {OWNERS}"


def default_folder() -> Path:
    """The folder with the control sockets of this user's hosts."""
    base = os.environ.get("XDG_RUNTIME_DIR", "")
    return (
        Path(base, "plughost") if os.path.isabs(base) else Path(shared_temp_dir(), f"plughost-{os.getuid()}")
    )


def hosts(folder: Path) -> list[Path]:
    """The sockets of all running hosts in `folder`, which need not exist. Removes stale sockets that killed
    hosts left behind."""
    try:
        _check_private(folder)
    except FileNotFoundError:
        return []
    except OSError as error:
        raise _out_of_reach(folder, error) from error
    return [path for path in sorted(folder.glob("*.sock")) if _is_alive(path)]


def create_folder(folder: Path) -> None:
    """Create the folder for control sockets; InvalidSpec if another user could put a socket there."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        _check_private(folder)
    except OSError as error:
        raise _out_of_reach(folder, error) from error


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


def is_listening(path: Path) -> bool:
    """Whether a host accepts connections at `path` now."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.setblocking(False)
        try:
            probe.connect(str(path))
        except BlockingIOError:  # more clients wait than it can take at once
            return True
        except OSError:
            return False
    return True


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
    """InvalidSpec if another user could put a socket there."""
    info = folder.lstat()
    if not stat.S_ISDIR(info.st_mode):
        why = "it is not a folder"
    elif info.st_uid != os.geteuid():
        why = f"it belongs to user {info.st_uid}, and this is user {os.geteuid()}"
    elif info.st_mode & 0o022:
        why = f"other users can write to it (mode {stat.S_IMODE(info.st_mode):o})"
    else:
        return
    raise InvalidSpec(f"{folder} is not this user's own folder: {why}", hint=_OWN_FOLDER)


def _out_of_reach(folder: Path, error: OSError) -> InvalidSpec:
    return InvalidSpec(f"cannot use {folder} for control sockets: {error.strerror}", hint=_OWN_FOLDER)
