"""The chain that a compactor is given, inline or as a file in its scratch folder."""

from __future__ import annotations

import json
import os

from plughost_sdk.vai.outcome import Failed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

MOST = 256 << 20
"""Bytes of a projection in a file."""


class BadProjection(Failed):
    """What came is not what it was said to be; nothing of it is used."""


class Projection:
    """Its blocks are as they came, but for one thing: content without a `type`, which no seed block may hold,
    has the type `data`.
    """

    def __init__(self, blocks: list[dict[str, Any]], pinned_items: list[Any], token_estimate: int) -> None:
        self.blocks = [_typed(block) for block in blocks]
        self.pinned_items = pinned_items
        self.token_estimate = token_estimate


def _typed(block: dict[str, Any]) -> dict[str, Any]:
    content = block.get("content")
    if not isinstance(content, list) or all(_has_type(item) for item in content):
        return block
    return {**block, "content": [item if _has_type(item) else _data(item) for item in content]}


def _has_type(item: Any) -> bool:
    return isinstance(item, dict) and isinstance(item.get("type"), str)


def _data(item: Any) -> dict[str, Any]:
    return {**item, "type": "data"} if isinstance(item, dict) else {"type": "data", "value": item}


def load(projection: dict[str, Any], scratch_dir: str | None) -> Projection:
    """A file is read only below `scratch_dir`, through no link, and if its size and digest are as told."""
    transport = projection.get("transport")
    if transport == "artifact":
        data = _read(projection, scratch_dir)
        try:
            told = json.loads(data)
        except (ValueError, RecursionError) as error:
            raise BadProjection(f"the projection's file is not JSON: {error}") from None
        if not isinstance(told, dict):
            raise BadProjection("the projection's file does not hold an object with blocks and pinned_items")
    elif transport == "inline":
        told = projection
    else:
        raise BadProjection(f"a projection is inline or an artifact, not {transport!r}")
    blocks, pinned = told.get("blocks", []), told.get("pinned_items", [])
    if not isinstance(blocks, list) or not all(isinstance(block, dict) for block in blocks):
        raise BadProjection("the projection's blocks are not a list of objects")
    if not isinstance(pinned, list):
        raise BadProjection("the projection's pinned_items are not a list")
    estimate = projection.get("token_estimate", 0)
    return Projection(blocks, pinned, estimate if type(estimate) is int and estimate >= 0 else 0)


def _read(projection: dict[str, Any], scratch_dir: str | None) -> bytes:
    import hashlib
    import stat

    path, digest, size = (projection.get(name) for name in ("path", "sha256", "bytes"))
    if not isinstance(path, str) or not isinstance(digest, str) or type(size) is not int:
        raise BadProjection("a projection in a file has a path, a sha256 and a size in bytes")
    if not 0 <= size <= MOST:
        raise BadProjection(f"a projection of {size} bytes; at most {MOST} are read")
    if scratch_dir is None:
        raise BadProjection("a projection in a file, but this export has no scratch folder")
    try:
        file = _open_below(scratch_dir, path)
    except OSError as error:
        raise BadProjection(f"the projection's file cannot be read: {error}") from None
    with open(file, "rb") as opened:
        found = os.fstat(file)
        if not stat.S_ISREG(found.st_mode) or found.st_size != size:
            raise BadProjection(f"the projection's file is not a regular file of {size} bytes")
        data = opened.read(size + 1)
    if len(data) != size or hashlib.sha256(data).hexdigest() != digest.removeprefix("sha256:").lower():
        raise BadProjection("the projection's file does not match its sha256")
    return data


def _open_below(scratch_dir: str, path: str) -> int:
    """Step by step, so that no link and no `..` leads out, whatever is swapped meanwhile."""
    within = os.path.relpath(path, scratch_dir) if os.path.isabs(path) else path
    steps = [step for step in within.split("/") if step not in ("", ".")]
    if not steps or ".." in steps or "\0" in within:
        raise BadProjection("the projection's file is outside the scratch folder")
    folder = os.open(scratch_dir, os.O_RDONLY | os.O_DIRECTORY)
    try:
        for step in steps[:-1]:
            inner = os.open(step, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=folder)
            os.close(folder)
            folder = inner
        # Without O_NONBLOCK a named pipe would be waited for.
        return os.open(steps[-1], os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    finally:
        os.close(folder)
