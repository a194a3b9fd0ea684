"""Chunked publishes of the sessions topic: large data as a row of snapshots, and back.

A publisher splits, whoever subscribes assembles: plugins with their SDK, and embedding programs with this.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

WIRE_VERSION = 3
TARGET = 2 << 20
"""Bytes of msgpack in one chunk, about; in base64, with its envelope, it stays below 2.7 MiB."""
STEP = 64
"""Calls are added by so many before the size is looked at again."""
MAX_BATCH = 64 << 20
"""Bytes of msgpack in one batch that is received; a larger one is dropped."""


class UsageBucket(msgspec.Struct):
    input_tokens: int = 0
    cache_creation_tokens: int = 0
    cache_read_tokens: int = 0
    output_tokens: int = 0
    reasoning_tokens: int = 0
    session_count: int = 0
    project_count: int = 0
    call_count: int = 0
    cost_usd: float | None = None


class UsageData(msgspec.Struct):
    """Aggregates, and the calls they are made of."""

    daily: list[Any] = []
    weekly: list[Any] = []
    projects: list[Any] = []
    grand_total: UsageBucket = msgspec.field(default_factory=UsageBucket)
    calls: list[Any] = []
    sessions: list[Any] = []
    models: list[Any] = []
    activities: list[Any] = []
    tools: list[Any] = []
    mcp_servers: list[Any] = []
    shell_commands: list[Any] = []
    branches: list[Any] = []
    model_project_counts: list[Any] = []


class Chunk(msgspec.Struct):
    version: int
    published_ns: int
    partial: bool
    data: UsageData
    chunk_index: int = 0
    is_final: bool = True


class _Version(msgspec.Struct):
    version: int


class ChunkMismatch(msgspec.Struct, frozen=True):
    """Data of another wire version: to be shown as such, not read."""

    expected: int
    got: int


class UnreadableChunk(msgspec.Struct, frozen=True):
    """What came is no chunk at all."""

    reason: str


class Batch(msgspec.Struct, frozen=True):
    """A publish, whole again. `partial` is the publisher's word that more is still being counted."""

    published_ns: int
    partial: bool
    data: UsageData


def split(
    data: UsageData, published_ns: int, *, partial: bool = False, target: int = TARGET
) -> Iterator[bytes]:
    """The chunks of one publish: the first has the aggregates and the first calls, the others only calls."""
    slices = list(_slices(data, target))
    for index, calls in enumerate(slices):
        part = msgspec.structs.replace(data, calls=calls) if index == 0 else UsageData(calls=calls)
        final = index == len(slices) - 1
        yield msgspec.msgpack.encode(Chunk(WIRE_VERSION, published_ns, partial, part, index, final))


def _slices(data: UsageData, target: int) -> Iterator[list[Any]]:
    """At least one, which may be empty. A single call that is too large still goes."""
    room = target - len(msgspec.msgpack.encode(msgspec.structs.replace(data, calls=[])))
    begun: list[Any] = []
    for at in range(0, len(data.calls), STEP):
        some = data.calls[at : at + STEP]
        for piece in [some] if len(msgspec.msgpack.encode(some)) <= target else [[call] for call in some]:
            size = len(msgspec.msgpack.encode(piece))
            if begun and size > room:
                yield begun
                begun, room = [], target
            begun += piece
            room -= size
    yield begun


class Assembler:
    """Takes the snapshots of one topic as they come."""

    def __init__(self, most: int = MAX_BATCH) -> None:
        self._most = most
        self._begun: UsageData | None = None
        self._published_ns = 0
        self._expected = 0
        self._size = 0

    def feed(self, payload: bytes) -> Batch | ChunkMismatch | UnreadableChunk | None:
        """A whole batch with its last chunk; None before that, and for a chunk without those before it."""
        try:
            version = msgspec.msgpack.decode(payload, type=_Version).version
            if version != WIRE_VERSION:
                self._begun = None
                return ChunkMismatch(WIRE_VERSION, version)
            chunk = msgspec.msgpack.decode(payload, type=Chunk)
        except (ValueError, RecursionError) as error:
            self._begun = None
            return UnreadableChunk(str(error))
        return self._take(chunk, len(payload))

    def _take(self, chunk: Chunk, size: int) -> Batch | UnreadableChunk | None:
        if chunk.chunk_index == 0:  # a new publish: what was under way is old
            self._begun = chunk.data
            self._published_ns = chunk.published_ns
            self._size = 0
        elif self._begun is None:
            return None
        elif (chunk.published_ns, chunk.chunk_index) != (self._published_ns, self._expected):
            self._begun = None
            return None
        else:
            self._begun.calls += chunk.data.calls
        self._size += size
        if self._size > self._most:
            self._begun = None
            return UnreadableChunk(f"a batch is over the limit of {self._most} bytes")
        self._expected = chunk.chunk_index + 1
        if not chunk.is_final:
            return None
        data, self._begun = self._begun, None
        return Batch(chunk.published_ns, chunk.partial, data)
