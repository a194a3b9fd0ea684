"""Chunked publishes of the sessions topic: large data as a row of snapshots, and back.

msgpack comes with msgspec, an optional dependency: `pip install plughost-sdk[batch]`.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

WIRE_VERSION = 3
TARGET = 2 << 20
"""Bytes of msgpack in one chunk, about; in base64, with its envelope, it stays below 2.7 MiB."""
STEP = 64
"""Calls are added by so many before the size is looked at again."""
MAX_BATCH = 64 << 20
"""Bytes of msgpack in one batch that is received; a larger one is dropped."""

_LISTS = (
    "daily", "weekly", "projects", "calls", "sessions", "models", "activities", "tools", "mcp_servers",
    "shell_commands", "branches", "model_project_counts",
)  # fmt: skip
_COUNTS = (
    "input_tokens", "cache_creation_tokens", "cache_read_tokens", "output_tokens", "reasoning_tokens",
    "session_count", "project_count", "call_count",
)  # fmt: skip


class Batch:
    """A publish, whole again. `partial` is the publisher's word that more is still being counted."""

    def __init__(self, published_ns: int, partial: bool, data: dict[str, Any]) -> None:
        self.published_ns = published_ns
        self.partial = partial
        self.data = data


class Chunk:
    """One piece of a publish that came in its turn; the first has the aggregates, all have `calls`."""

    def __init__(self, index: int, is_final: bool, published_ns: int, partial: bool, raw: bytes) -> None:
        self.index = index
        self.is_final = is_final
        self.published_ns = published_ns
        self.partial = partial
        self.raw = raw
        """The msgpack that came, for a decoder of your own; a typed one takes a quarter of the time."""

    @property
    def data(self) -> dict[str, Any]:
        """With all the members there are; Unreadable when they are not what they should be."""
        return _data(self.raw)


class Mismatch:
    """Data of another wire version: to be shown as such, not read."""

    def __init__(self, expected: int, got: int) -> None:
        self.expected = expected
        self.got = got


class Unreadable(ValueError):
    """What came is no chunk at all."""


def nothing() -> dict[str, Any]:
    """Usage data before anything is used."""
    total: dict[str, Any] = {**dict.fromkeys(_COUNTS, 0), "cost_usd": None}
    return {**{name: [] for name in _LISTS}, "grand_total": total}


def split(
    data: dict[str, Any], published_ns: int, *, partial: bool = False, target: int = TARGET
) -> Iterator[bytes]:
    """The chunks of one publish: the first has the aggregates and the first calls, the others only calls."""
    if not isinstance(data, dict) or not isinstance(data.get("calls", []), list):
        raise TypeError("a batch is a dict, its `calls` a list: {'grand_total': {…}, 'calls': [{…}, …]}")
    encode = msgpack().encode
    slices = [*_slices({**nothing(), **data}, target, encode)]
    for index, part in enumerate(slices):
        yield encode(
            {
                "version": WIRE_VERSION,
                "published_ns": published_ns,
                "partial": partial,
                "chunk_index": index,
                "is_final": index == len(slices) - 1,
                "data": part,
            }
        )


def _slices(data: dict[str, Any], target: int, encode: Callable[[Any], bytes]) -> Iterator[dict[str, Any]]:
    """At least one, whose calls may be none. A single call that is too large still goes."""
    calls = data["calls"]
    begun = {**data, "calls": []}
    room = target - len(encode(begun))
    for at in range(0, len(calls), STEP):
        some = calls[at : at + STEP]
        size = len(encode(some))
        alone = [([call], len(encode([call]))) for call in some] if size > target else [(some, size)]
        for piece, size in alone:
            if begun["calls"] and size > room:
                yield begun
                begun, room = nothing(), target
            begun["calls"] += piece
            room -= size
    yield begun


class InTurn:
    """Takes the snapshots of one topic as they come, and leaves out what is not in its turn."""

    def __init__(self) -> None:
        self._expected: tuple[int, int] | None = None
        """The batch that is under way and the index of its next chunk."""

    def feed(self, payload: bytes) -> Chunk | Mismatch | None:
        """None for a chunk without those before it. A chunk with index 0 discards what was under way."""
        # Kept only if this chunk belongs to it.
        expected, self._expected = self._expected, None
        version = _head(payload, 1).version
        if version != WIRE_VERSION:
            return Mismatch(WIRE_VERSION, version)
        head = _head(payload, len(_HEAD))
        chunk = Chunk(head.chunk_index, head.is_final, head.published_ns, head.partial, payload)
        if chunk.index != 0 and (chunk.published_ns, chunk.index) != expected:
            return None
        if not chunk.is_final:
            self._expected = chunk.published_ns, chunk.index + 1
        return chunk


class Assembler:
    """Takes the snapshots of one topic as they come, and keeps the calls until the last is there."""

    def __init__(self, most: int = MAX_BATCH) -> None:
        self._most = most
        self._in_turn = InTurn()
        self._begun: dict[str, Any] | None = None
        self._size = 0

    def feed(self, payload: bytes) -> Batch | Mismatch | None:
        """A whole batch with its last chunk; None before that, and for a chunk without those before it."""
        begun, self._begun = self._begun, None
        chunk = self._in_turn.feed(payload)
        if not isinstance(chunk, Chunk):
            return chunk
        if chunk.index == 0:
            begun, self._size = chunk.data, 0
        elif begun is None:  # one before it was too large, or unreadable
            return None
        else:
            begun["calls"] += chunk.data["calls"]
        self._size += len(payload)
        if self._size > self._most:
            raise Unreadable(f"a batch is over the limit of {self._most} bytes")
        if chunk.is_final:
            return Batch(chunk.published_ns, chunk.partial, begun)
        self._begun = begun
        return None


_HEAD = (
    ("version", int), ("published_ns", int), ("partial", bool),
    ("chunk_index", int, 0), ("is_final", bool, True),
)  # fmt: skip
_heads: dict[int, Any] = {}


def _head(payload: bytes, members: int) -> Any:
    """The first of these members. What else there is, be it megabytes, is passed over."""
    if members not in _heads:
        msgpack()
        _heads[members] = sys.modules["msgspec"].defstruct("Head", _HEAD[:members])
    return _decoded(payload, _heads[members])


def _decoded(payload: bytes, kind: Any = None) -> Any:
    try:
        return msgpack().decode(payload) if kind is None else msgpack().decode(payload, type=kind)
    except (ValueError, TypeError, RecursionError, OverflowError) as error:
        raise Unreadable(f"not a chunk: {error}") from None


def _data(payload: bytes) -> dict[str, Any]:
    told = _decoded(payload).get("data")
    if not isinstance(told, dict):
        raise Unreadable(f"not a chunk: its `data` is {told!r:.60}")
    data = {**nothing(), **told}
    for name in _LISTS:
        if not isinstance(data[name], list):
            raise Unreadable(f"not a chunk: its `{name}` is not a list")
    if not isinstance(data["grand_total"], dict):
        raise Unreadable("not a chunk: its `grand_total` is not a map")
    return data


def msgpack() -> Any:
    """The codec, imported when it is needed."""
    try:
        import msgspec.msgpack
    except ImportError:
        told = "batches are msgpack, which the standard library does not support"
        raise ImportError(f"{told}: pip install 'plughost-sdk[batch]', which brings msgspec") from None
    return msgspec.msgpack
