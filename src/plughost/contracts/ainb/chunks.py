"""Chunked publishes of ainb's sessions topic: splits usage data into msgpack snapshots and reassembles it.

The publisher splits and each subscriber assembles: plugins with their SDK, embedding programs with this
module.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

WIRE_VERSION = 3
TARGET = 2 << 20
"""Approximate bytes of msgpack per chunk; in base64, with its envelope, a chunk stays below 2.7 MiB."""
STEP = 64
"""Calls that are added to a chunk before its size is measured again."""
MAX_BATCH = 64 << 20
"""Maximum bytes of msgpack in one received batch; a larger batch is dropped."""


class UsageBucket(msgspec.Struct):
    """Totals of tokens, sessions, calls and cost, as published on the sessions topic."""

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
    """The payload of a publish: the aggregates, and the calls they are computed from."""

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
    """One msgpack message of a chunked publish on the sessions topic."""

    version: int
    published_ns: int
    partial: bool
    data: UsageData
    chunk_index: int = 0
    is_final: bool = True


class _Version(msgspec.Struct):
    version: int


class ChunkMismatch(msgspec.Struct, frozen=True):
    """The result of `Assembler.feed` for a chunk of another wire version: show the mismatch, do not read the
    data."""

    expected: int
    got: int


class UnreadableChunk(msgspec.Struct, frozen=True):
    """The result of `Assembler.feed` for bytes that are not a chunk, or for a batch over the size limit."""

    reason: str


class Batch(msgspec.Struct, frozen=True):
    """A publish, reassembled from its chunks. `partial` means that the publisher is still counting."""

    published_ns: int
    partial: bool
    data: UsageData


def split(
    data: UsageData, published_ns: int, *, partial: bool = False, target: int = TARGET
) -> Iterator[bytes]:
    """Splits one publish into encoded chunks: the first has the aggregates and the first calls, the others
    only calls."""
    slices = list(_group_calls(data, target))
    for index, calls in enumerate(slices):
        part = msgspec.structs.replace(data, calls=calls) if index == 0 else UsageData(calls=calls)
        final = index == len(slices) - 1
        yield msgspec.msgpack.encode(Chunk(WIRE_VERSION, published_ns, partial, part, index, final))


def _group_calls(data: UsageData, target: int) -> Iterator[list[Any]]:
    """Groups the calls by size: at least one group, possibly empty. A single call over `target` is still
    sent."""
    room = target - len(msgspec.msgpack.encode(msgspec.structs.replace(data, calls=[])))
    group: list[Any] = []
    for at in range(0, len(data.calls), STEP):
        calls = data.calls[at : at + STEP]
        for piece in [calls] if len(msgspec.msgpack.encode(calls)) <= target else [[call] for call in calls]:
            size = len(msgspec.msgpack.encode(piece))
            if group and size > room:
                yield group
                group, room = [], target
            group += piece
            room -= size
    yield group


class Assembler:
    """Reassembles the chunks of one topic, fed in the order in which they arrive."""

    def __init__(self, max_bytes: int = MAX_BATCH) -> None:
        self._max_bytes = max_bytes
        self._data: UsageData | None = None
        self._published_ns = 0
        self._expected = 0
        self._size = 0

    def feed(self, payload: bytes) -> Batch | ChunkMismatch | UnreadableChunk | None:
        """Returns the batch when its last chunk arrives; None before that, and for a chunk whose predecessors
        are missing."""
        try:
            version = msgspec.msgpack.decode(payload, type=_Version).version
            if version != WIRE_VERSION:
                self._data = None
                return ChunkMismatch(WIRE_VERSION, version)
            chunk = msgspec.msgpack.decode(payload, type=Chunk)
        except (ValueError, RecursionError) as error:
            self._data = None
            return UnreadableChunk(str(error))
        return self._take(chunk, len(payload))

    def _take(self, chunk: Chunk, size: int) -> Batch | UnreadableChunk | None:
        if chunk.chunk_index == 0:  # a new publish: drop an incomplete older one
            self._data = chunk.data
            self._published_ns = chunk.published_ns
            self._size = 0
        elif self._data is None:
            return None
        elif (chunk.published_ns, chunk.chunk_index) != (self._published_ns, self._expected):
            self._data = None
            return None
        else:
            self._data.calls += chunk.data.calls
        self._size += size
        if self._size > self._max_bytes:
            self._data = None
            return UnreadableChunk(f"a batch is over the limit of {self._max_bytes} bytes")
        self._expected = chunk.chunk_index + 1
        if not chunk.is_final:
            return None
        data, self._data = self._data, None
        return Batch(chunk.published_ns, chunk.partial, data)
