"""ainb: large data in chunks, and back."""

from __future__ import annotations

import base64

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

import plughost
from plughost.contracts.ainb.chunks import (
    TARGET,
    WIRE_VERSION,
    Assembler,
    Batch,
    Chunk,
    ChunkMismatch,
    UnreadableChunk,
    UsageBucket,
    UsageData,
    split,
)
from plughost.contracts.ainb.contract import ABI_VERSION
from tests.support.ainb import events, folder, spec

AGGREGATES = UsageData(daily=[["2026-01-01", {}]], projects=["p"], grand_total=UsageBucket(call_count=3))


def usage(calls: int, size: int = 1000) -> UsageData:
    made = [{"id": n, "text": "x" * size} for n in range(calls)]
    return msgspec.structs.replace(AGGREGATES, calls=made)


def chunks(payloads: list[bytes]) -> list[Chunk]:
    return [msgspec.msgpack.decode(payload, type=Chunk) for payload in payloads]


def fed(*payloads: bytes):
    assembler = Assembler()
    return [assembler.feed(payload) for payload in payloads]


@pytest.mark.clause("AINB-50", "AINB-52")
def test_the_first_chunk_has_the_aggregates_and_only_the_last_is_final():
    payloads = list(split(usage(10_000), 7))
    told = chunks(payloads)
    assert len(told) > 3
    assert [chunk.chunk_index for chunk in told] == list(range(len(told)))
    assert [chunk.is_final for chunk in told] == [False] * (len(told) - 1) + [True]
    assert {(chunk.version, chunk.published_ns) for chunk in told} == {(WIRE_VERSION, 7)}
    assert msgspec.structs.replace(told[0].data, calls=[]) == AGGREGATES
    assert all(msgspec.structs.replace(chunk.data, calls=[]) == UsageData() for chunk in told[1:])
    assert [call["id"] for chunk in told for call in chunk.data.calls] == list(range(10_000))
    assert max(len(base64.b64encode(payload)) for payload in payloads) < 2.8e6
    assert (WIRE_VERSION, ABI_VERSION, TARGET) == (3, 2, 2 << 20)


@pytest.mark.clause("AINB-50")
def test_little_data_is_one_chunk():
    (chunk,) = chunks(list(split(usage(3), 1, partial=True)))
    assert (chunk.chunk_index, chunk.is_final, chunk.partial) == (0, True, True)
    (chunk,) = chunks(list(split(UsageData(), 1)))
    assert chunk.is_final


@pytest.mark.clause("AINB-50", "AINB-51", "AINB-52")
@given(
    sizes=st.lists(st.integers(0, 300), max_size=200),
    target=st.integers(50, 2000),
    partial=st.booleans(),
)
def test_what_was_split_is_assembled_again(sizes, target, partial):
    data = msgspec.structs.replace(AGGREGATES, calls=["c" * size for size in sizes])
    payloads = list(split(data, 9, partial=partial, target=target))
    *before, last = fed(*payloads)
    assert before == [None] * len(before)
    assert last == Batch(9, partial, data)


@pytest.mark.clause("AINB-51")
def test_a_follow_on_chunk_without_its_first_is_dropped_and_a_new_first_discards_what_was_begun():
    old, new = list(split(usage(9000), 1)), list(split(usage(5000), 2))
    assert fed(*old[1:]) == [None] * (len(old) - 1)
    *_, last = fed(*old[:-1], *new)
    assert (last.published_ns, len(last.data.calls)) == (2, 5000)


@pytest.mark.clause("AINB-52")
@pytest.mark.parametrize("how", ["a gap", "doubled", "foreign"])
def test_a_batch_with_a_gap_or_a_foreign_chunk_is_dropped(how):
    mine, other = list(split(usage(9000), 1)), list(split(usage(9000), 2))
    row = {
        "a gap": [mine[0], *mine[2:]],
        "doubled": [mine[0], mine[1], *mine[1:]],
        "foreign": [mine[0], other[1], *mine[2:]],
    }[how]
    assert fed(*row) == [None] * len(row)
    assert isinstance(fed(*row, *other)[-1], Batch)


@pytest.mark.clause("AINB-43")
def test_another_version_is_a_value_and_never_a_crash():
    other = msgspec.msgpack.encode({"version": 4, "anything": [1]})
    assembler = Assembler()
    assert assembler.feed(other) == ChunkMismatch(expected=3, got=4)
    assert isinstance(assembler.feed(next(split(usage(1), 1))), Batch)
    first, second, *_ = split(usage(9000), 1)
    assert [assembler.feed(payload) for payload in (first, other, second)] == [
        None,
        ChunkMismatch(3, 4),
        None,
    ]


@pytest.mark.clause("AINB-43")
@given(st.binary(max_size=200))
def test_nothing_that_comes_crashes_it(payload):
    assert isinstance(Assembler().feed(payload), UnreadableChunk | ChunkMismatch | Batch | None)


@pytest.mark.clause("AINB-50")
async def test_chunks_go_through_the_bus_as_they_are(tmp_path, mark):
    """A plugin publishes, the embedding program and another plugin hear all of it in order."""
    async with plughost.Host() as host:
        topic = "sessions.usage_data"
        publisher = await host.add(spec(folder(tmp_path / mark, "publisher")))
        listener = await host.add(
            spec(folder(tmp_path / mark, "listener", subscribes={"snapshots": [topic]}))
        )
        await listener.call("echo", {})
        assembler, outcomes = Assembler(), []
        stop = host.service("snapshots").listen(
            topic, lambda payload: outcomes.append(assembler.feed(bytes.fromhex(payload.decode())))
        )
        payloads = list(split(usage(200, 10), 5, target=200))
        assert len(payloads) > 3
        texts = [payload.hex() for payload in payloads]  # the puppet publishes text
        await publisher.call("publish", {"topic": topic, "texts": texts})
        assert [text for _, text in await events(listener)] == texts
        assert outcomes == [None] * (len(payloads) - 1) + [Batch(5, False, usage(200, 10))]
        stop()
        await publisher.call("publish", {"topic": topic, "texts": texts[:1]})
        assert len(outcomes) == len(payloads)
        for plugin in (publisher, listener):
            plugin.kill()


@pytest.mark.clause("AINB-51")
def test_a_batch_that_would_not_end_is_dropped():
    payloads = list(split(usage(100), 7, target=10_000))
    size = sum(map(len, payloads))
    assert isinstance(feed_all(Assembler(size), payloads)[-1], Batch)
    told = feed_all(Assembler(size - 1), [*payloads, *split(usage(1), 8)])
    assert told[-2] == UnreadableChunk(f"a batch is over the limit of {size - 1} bytes")
    assert isinstance(told[-1], Batch), "and the next one is taken"
    endless = Assembler(50_000)
    dropped = feed_all(endless, payloads[:-1])
    assert UnreadableChunk("a batch is over the limit of 50000 bytes") in dropped
    assert endless.feed(payloads[-1]) is None


def feed_all(assembler: Assembler, payloads: list[bytes]):
    return [assembler.feed(payload) for payload in payloads]
