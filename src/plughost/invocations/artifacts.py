"""Files that an export hands over in its scratch folder: taken before it goes, and never from elsewhere.

A path is the plugin's word. It is opened below the scratch folder only, whatever links lie there, and what is
kept is named by its digest.
"""

from __future__ import annotations

import codecs
import hashlib
import os
import secrets
import stat
from collections.abc import Iterator
from typing import Any

from plughost.base.errors import Denied, HostFailed
from plughost.base.hiding import Hidden
from plughost.base.json_pieces import SLICE
from plughost.base.text import brief
from plughost.guard.beneath import Escapes, open_beneath
from plughost.sandbox.temporary_folder import open_folder

MOST = 64
LARGEST = 64 << 20
"""Bytes of all artifacts of one invocation."""


def taken(artifacts: list[Any], scratch: str | None, folder: str | None, hidden: Hidden) -> list[Any]:
    """The artifacts with digest and size instead of a path; their bytes go into `folder`, if there is one.

    Denied for a path that leads out of the scratch folder, or to no file, and for what must stay `hidden`.
    Blocking.
    """
    if len(artifacts) > MOST:
        raise Denied(f"it hands over more than {MOST} artifacts")
    left = LARGEST
    told = []
    for artifact in artifacts:
        if not isinstance(artifact, dict) or "path" not in artifact:
            told.append(artifact)
            continue
        content = _content(artifact["path"], scratch, left)
        left -= len(content)
        if hidden.is_in(_text(content)):
            raise Denied(f"the artifact {brief(artifact['path'])} holds a secret")
        digest = hashlib.sha256(content).hexdigest()
        if folder is not None:
            _keep(content, folder, digest)
        named = {name: value for name, value in artifact.items() if name != "path"}
        told.append(
            {**named, "name": os.path.basename(artifact["path"]), "sha256": digest, "bytes": len(content)}
        )
    return told


def _text(content: bytes) -> Iterator[str]:
    """In slices: one long text would hold the interpreter, and so every other thread, for a second."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    for at in range(0, len(content), SLICE):
        yield decoder.decode(content[at : at + SLICE])
    yield decoder.decode(b"", final=True)


def _content(path: Any, scratch: str | None, left: int) -> bytes:
    if scratch is None:
        raise Denied("it hands over a file, and has no scratch folder")
    if not isinstance(path, str) or "\0" in path:
        raise Denied("the path of an artifact is no text")
    inside = path.removeprefix(scratch.rstrip("/") + "/")
    try:
        root = open_folder(scratch)
    except OSError as error:
        raise Denied("it has removed its scratch folder, and hands over a file of it") from error
    try:
        # A pipe would be waited for, a device would act: only what is a file is opened for reading.
        looked = open_beneath(root, inside, os.O_PATH)
        try:
            if not stat.S_ISREG(os.fstat(looked).st_mode):
                raise Denied(f"the artifact {brief(path)} is no file")
            with open(f"/proc/self/fd/{looked}", "rb") as file:
                content: bytes = file.read(left + 1)
                if len(content) > left:
                    raise Denied(f"its artifacts have more than {LARGEST} bytes")
                return content
        finally:
            os.close(looked)
    except (OSError, Escapes) as error:
        raise Denied(f"the artifact {brief(path)} is not in its scratch folder") from error
    finally:
        os.close(root)


def _keep(content: bytes, folder: str, digest: str) -> None:
    path = os.path.join(folder, digest)
    try:
        os.makedirs(folder, 0o700, exist_ok=True)
        with open(f"{path}.{secrets.token_hex(8)}", "wb", opener=_private) as copy:
            copy.write(content)
        os.rename(copy.name, path)
    except OSError as error:
        raise HostFailed(f"its artifacts could not be kept: {error}") from error


def _private(name: str, flags: int) -> int:
    return os.open(name, flags | os.O_CLOEXEC, 0o600)
