"""Artifacts: files that an export hands over from its scratch folder, copied before that folder is removed.

The path of an artifact is untrusted input. It is opened beneath the scratch folder only, whatever symlinks
are in it, and the copy is named by its SHA-256 digest.
"""

from __future__ import annotations

import codecs
import hashlib
import os
import secrets
import stat
from collections.abc import Iterator
from typing import Any

from plughost._util.redaction.json_pieces import SLICE
from plughost._util.redaction.redactor import Redactor
from plughost._util.text import truncate
from plughost.errors import Denied, HostFailed
from plughost.permissions.open_beneath import EscapesFolder, open_beneath
from plughost.sandbox.untrusted_temp_dir import open_folder

MAX_ARTIFACTS = 64
"""Artifacts of one invocation."""
MAX_BYTES = 64 << 20
"""Bytes of all artifacts of one invocation together."""


def collect_artifacts(
    artifacts: list[Any], scratch: str | None, folder: str | None, redactor: Redactor
) -> list[Any]:
    """Replaces the path of each artifact by its digest and size; copies the bytes to `folder`, if there is
    one.

    Denied for a path that leads out of the scratch folder or is not a regular file, and for content with a
    secret in it. Blocking.
    """
    if len(artifacts) > MAX_ARTIFACTS:
        raise Denied(f"it returns more than {MAX_ARTIFACTS} artifacts")
    left = MAX_BYTES
    collected = []
    for artifact in artifacts:
        if not isinstance(artifact, dict) or "path" not in artifact:
            collected.append(artifact)
            continue
        content = _read_artifact(artifact["path"], scratch, left)
        left -= len(content)
        if redactor.has_secret(_text(content)):
            raise Denied(f"the artifact {truncate(artifact['path'])} holds a secret")
        digest = hashlib.sha256(content).hexdigest()
        if folder is not None:
            _store(content, folder, digest)
        fields = {name: value for name, value in artifact.items() if name != "path"}
        collected.append(
            {**fields, "name": os.path.basename(artifact["path"]), "sha256": digest, "bytes": len(content)}
        )
    return collected


def _text(content: bytes) -> Iterator[str]:
    """Decodes in slices: one long text would hold the interpreter, and so every other thread, for long."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    for at in range(0, len(content), SLICE):
        yield decoder.decode(content[at : at + SLICE])
    yield decoder.decode(b"", final=True)


def _read_artifact(path: Any, scratch: str | None, left: int) -> bytes:
    if scratch is None:
        raise Denied("it returns a file, but has no scratch folder")
    if not isinstance(path, str) or "\0" in path:
        raise Denied("the path of an artifact is not text")
    inside = path.removeprefix(scratch.rstrip("/") + "/")
    try:
        root = open_folder(scratch)
    except OSError as error:
        raise Denied("it returns a file, but has removed its scratch folder") from error
    try:
        # Only a regular file is opened for reading: opening a pipe would block, and a device would react.
        fd = open_beneath(root, inside, os.O_PATH)
        try:
            if not stat.S_ISREG(os.fstat(fd).st_mode):
                raise Denied(f"the artifact {truncate(path)} is not a file")
            with open(f"/proc/self/fd/{fd}", "rb") as file:
                content: bytes = file.read(left + 1)
                if len(content) > left:
                    raise Denied(f"its artifacts have more than {MAX_BYTES} bytes")
                return content
        finally:
            os.close(fd)
    except (OSError, EscapesFolder) as error:
        raise Denied(f"the artifact {truncate(path)} is not in its scratch folder") from error
    finally:
        os.close(root)


def _store(content: bytes, folder: str, digest: str) -> None:
    path = os.path.join(folder, digest)
    try:
        os.makedirs(folder, 0o700, exist_ok=True)
        with open(f"{path}.{secrets.token_hex(8)}", "wb", opener=_private) as copy:
            copy.write(content)
        os.rename(copy.name, path)
    except OSError as error:
        raise HostFailed(f"its artifacts could not be stored: {error}") from error


def _private(name: str, flags: int) -> int:
    return os.open(name, flags | os.O_CLOEXEC, 0o600)
