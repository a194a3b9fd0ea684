"""Files that an export hands over in its scratch folder: taken before it goes, and never from elsewhere.

A path is the plugin's word. It is opened below the scratch folder only, whatever links lie there, and what is
kept is named by its digest.
"""

from __future__ import annotations

import hashlib
import os
import stat
from typing import Any

from plughost.base.errors import Denied
from plughost.guard.beneath import Escapes, open_beneath

MOST = 64
LARGEST = 64 << 20
"""Bytes of all artifacts of one invocation."""
CHUNK = 1 << 20


def taken(artifacts: list[Any], scratch: str | None, folder: str | None) -> list[Any]:
    """The artifacts with digest and size instead of a path; their bytes go into `folder`, if there is one.

    Denied for a path that leads out of the scratch folder, or to no file. Blocking.
    """
    if len(artifacts) > MOST:
        raise Denied(f"it hands over more than {MOST} artifacts")
    left = LARGEST
    told = []
    for artifact in artifacts:
        if not isinstance(artifact, dict) or "path" not in artifact:
            told.append(artifact)
            continue
        digest, size = _take(artifact["path"], scratch, folder, left)
        left -= size
        named = {name: value for name, value in artifact.items() if name != "path"}
        told.append({**named, "name": os.path.basename(artifact["path"]), "sha256": digest, "bytes": size})
    return told


def _take(path: Any, scratch: str | None, folder: str | None, left: int) -> tuple[str, int]:
    if scratch is None:
        raise Denied("it hands over a file, and has no scratch folder")
    if not isinstance(path, str) or "\0" in path:
        raise Denied("the path of an artifact is no text")
    inside = path.removeprefix(scratch.rstrip("/") + "/")
    root = os.open(scratch, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        # A pipe would be waited for, a device would act: only what is a file is opened for reading.
        looked = open_beneath(root, inside, os.O_PATH)
        try:
            if not stat.S_ISREG(os.fstat(looked).st_mode):
                raise Denied(f"the artifact {path!r:.200} is no file")
            with open(f"/proc/self/fd/{looked}", "rb") as file:
                return _copied(file, folder, left)
        finally:
            os.close(looked)
    except (OSError, Escapes) as error:
        raise Denied(f"the artifact {path!r:.200} is not in its scratch folder") from error
    finally:
        os.close(root)


def _copied(file: Any, folder: str | None, left: int) -> tuple[str, int]:
    summed, size, pieces = hashlib.sha256(), 0, []
    while piece := file.read(CHUNK):
        size += len(piece)
        if size > left:
            raise Denied(f"its artifacts have more than {LARGEST} bytes")
        summed.update(piece)
        pieces.append(piece)
    digest = summed.hexdigest()
    if folder is not None:
        os.makedirs(folder, 0o700, exist_ok=True)
        path = os.path.join(folder, digest)
        with open(f"{path}.{os.getpid()}", "wb", opener=_private) as copy:
            copy.writelines(pieces)
        os.rename(copy.name, path)
    return digest, size


def _private(name: str, flags: int) -> int:
    return os.open(name, flags | os.O_CLOEXEC, 0o600)
