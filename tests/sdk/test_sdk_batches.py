"""Chunked publishes: the SDK and the host's library understand each other, and nothing grows without bound."""

from __future__ import annotations

import base64
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from plughost.contracts.ainb import chunks as ours
from plughost.testing import drive
from plughost_sdk import ainb, chunks
from tests.support import until
from tests.support.sdk import INIT, ainb_folder, session

values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
calls = st.lists(values, max_size=200)
targets = st.integers(200, 3000)


def usage(count: int, size: int = 1000) -> dict[str, object]:
    made = [{"id": number, "text": "x" * size} for number in range(count)]
    return {"daily": [["2026-01-01", {}]], "grand_total": {**chunks.nothing()["grand_total"], "call_count": 3}, "calls": made}  # fmt: skip


def last(assembler, payloads):
    told = [assembler.feed(payload) for payload in payloads]
    assert told[:-1] == [None] * (len(told) - 1)
    return told[-1]


@pytest.mark.clause("AINB-50", "AINB-52")
def test_the_sdk_splits_as_the_host_does():
    payloads = [*chunks.split(usage(10_000), 7)]
    read = [msgspec.msgpack.decode(payload) for payload in payloads]
    assert len(read) > 3
    assert [chunk["chunk_index"] for chunk in read] == [*range(len(read))]
    assert [chunk["is_final"] for chunk in read] == [False] * (len(read) - 1) + [True]
    assert {(chunk["version"], chunk["published_ns"], chunk["partial"]) for chunk in read} == {(3, 7, False)}
    assert read[0]["data"]["daily"] == [["2026-01-01", {}]]
    assert all({**chunk["data"], "calls": []} == chunks.nothing() for chunk in read[1:])
    assert max(len(base64.b64encode(payload)) for payload in payloads) < 2.8e6
    whole = msgspec.convert({**chunks.nothing(), **usage(10_000)}, ours.UsageData)
    assert [msgspec.msgpack.decode(payload) for payload in ours.split(whole, 7)] == read


@given(calls, targets, st.booleans())
def test_what_the_sdk_publishes_the_host_reads_and_the_other_way_round(made, target, partial):
    batch = last(ours.Assembler(), [*chunks.split({"calls": made}, 5, partial=partial, target=target)])
    assert isinstance(batch, ours.Batch)
    assert (batch.published_ns, batch.partial, batch.data) == (5, partial, ours.UsageData(calls=made))
    payloads = [*ours.split(ours.UsageData(calls=made), 5, partial=partial, target=target)]
    batch = last(chunks.Assembler(), payloads)
    assert isinstance(batch, chunks.Batch)
    assert (batch.published_ns, batch.partial) == (5, partial)
    assert batch.data == {**chunks.nothing(), "calls": made}


def same(mine, theirs):
    if isinstance(theirs, ours.Batch):
        return (mine.published_ns, mine.partial, mine.data["calls"]) == (
            theirs.published_ns,
            theirs.partial,
            theirs.data.calls,
        )
    if isinstance(theirs, ours.ChunkMismatch):
        return (mine.expected, mine.got) == (theirs.expected, theirs.got)
    return mine is theirs is None


chunk = st.builds(
    lambda **members: msgspec.msgpack.encode(members),
    version=st.sampled_from([3, 3, 3, 3, 4]),
    published_ns=st.sampled_from([1, 1, 2]),
    partial=st.just(False),
    chunk_index=st.integers(0, 3),
    is_final=st.booleans(),
    data=st.integers().map(lambda number: {"calls": [number % 100]}),
)


@pytest.mark.clause("AINB-51", "AINB-52", "AINB-43")
@given(st.lists(chunk, max_size=12))
def test_any_row_of_chunks_is_put_together_as_the_host_does(payloads):
    """Without a first chunk, with gaps, of two publishes, of another version."""
    mine, theirs = chunks.Assembler(), ours.Assembler()
    for payload in payloads:
        assert same(mine.feed(payload), theirs.feed(payload))


@given(st.binary(max_size=60) | values.map(msgspec.msgpack.encode))
def test_what_is_no_chunk_is_unreadable_and_nothing_else(payload):
    with pytest.raises(chunks.Unreadable):
        chunks.Assembler().feed(payload)


@given(
    st.dictionaries(
        st.sampled_from(["version", "published_ns", "partial", "chunk_index", "is_final", "data"]), values
    )
)
def test_chunks_with_wrong_members_do_no_harm(members):
    assembler = chunks.Assembler()
    try:
        told = assembler.feed(msgspec.msgpack.encode({"version": 3, **members}))
    except chunks.Unreadable:
        return
    assert told is None or isinstance(told, (chunks.Batch, chunks.Mismatch))


@pytest.mark.clause("AINB-51", "AINB-52", "AINB-43")
@given(st.lists(chunk, max_size=12))
def test_chunks_one_at_a_time_are_those_of_the_whole(payloads):
    """What is put together from the chunks that came in turn is what the assembler puts together."""
    in_turn, whole = chunks.InTurn(), chunks.Assembler()
    calls = []
    for payload in payloads:
        came, batch = in_turn.feed(payload), whole.feed(payload)
        if not isinstance(came, chunks.Chunk):
            assert type(came) is type(batch)
            continue
        calls = came.data["calls"] if came.index == 0 else calls + came.data["calls"]
        assert (batch is not None) == came.is_final
        if batch is not None:
            assert (batch.data["calls"], batch.published_ns) == (calls, came.published_ns)


def test_a_plugin_hears_chunks_as_they_come(tmp_path):
    place = ainb_folder(tmp_path, "")
    plugin = ainb.Plugin(str(place / "manifest.toml"))
    heard = []
    plugin.on_chunk("t")(heard.append)
    plugin.method("heard")(lambda: [told(each) for each in heard])
    payloads = [*chunks.split({"calls": ["x" * 900] * 3}, 1, partial=True, target=1000)]
    other = msgspec.msgpack.encode({"version": 4})
    with drive(plugin, place) as host:
        for payload in (payloads[1], *payloads, other, b"junk"):
            host.event("t", payload)
        assert host.call("heard", {}) == [
            {"index": 0, "is_final": False, "partial": True},
            {"index": 1, "is_final": False, "partial": True},
            {"index": 2, "is_final": True, "partial": True},
            {"expected": 3, "got": 4},
        ]


def told(each):
    wanted = ("index", "is_final", "partial", "expected", "got")
    return {name: value for name, value in vars(each).items() if name in wanted}


def test_nested_too_deeply_is_unreadable():
    with pytest.raises(chunks.Unreadable):
        chunks.Assembler().feed(b"\x91" * 100_000)


def test_a_batch_is_bounded():
    payloads = [*chunks.split({"calls": ["x" * 900] * 100}, 1, target=1000)]
    assembler = chunks.Assembler(most=sum(map(len, payloads[:50])))
    assert [assembler.feed(payload) for payload in payloads[:50]] == [None] * 50
    with pytest.raises(chunks.Unreadable, match="over the limit"):
        assembler.feed(payloads[50])
    assert [assembler.feed(payload) for payload in payloads[51:]] == [None] * (len(payloads) - 51)
    assert assembler.feed(next(chunks.split({}, 2))).published_ns == 2


def test_a_batch_that_is_none_is_told():
    for wrong in ([], {"calls": {}}, None):
        with pytest.raises(TypeError, match="a batch is a dict, its `calls` a list"):
            [*chunks.split(wrong, 1)]
    with pytest.raises(TypeError, match="unsupported"):
        [*chunks.split({"calls": [object()]}, 1)]


SITE = str(Path(msgspec.__file__).parents[1])
AINB = f"""
sys.path.append({SITE!r})
from plughost_sdk import ainb
plugin = ainb.Plugin()
seen = []

@plugin.on_batch("in")
def batch(batch):
    if isinstance(batch, ainb.Mismatch):
        seen.append(["mismatch", batch.expected, batch.got])
    else:
        seen.append([len(batch.data["calls"]), batch.data["grand_total"]["call_count"], batch.partial])
        plugin.host.snapshot.publish_batch("out", batch.data, partial=True)

@plugin.method("seen")
def tell(params):
    return seen

plugin.run()
"""


@pytest.mark.clause("AINB-50", "AINB-43")
async def test_batches_through_a_real_host(host, tmp_path, mark):
    plugin = await host.add(ainb_folder(tmp_path / mark, AINB, subscribes={"snapshots": ["in"]}))
    assert await plugin.call("seen", {}) == []
    store, heard = host.service("snapshots"), ours.Assembler()
    got = []
    store.listen("out", lambda payload: got.append(heard.feed(payload)))
    data = msgspec.convert({**chunks.nothing(), **usage(5000)}, ours.UsageData)
    for payload in ours.split(data, 9):
        store.put("in", payload)
    store.put("in", msgspec.msgpack.encode({"version": 4}))
    store.put("in", b"no chunk")
    assert await plugin.call("seen", {}) == [[5000, 3, False], ["mismatch", 3, 4]]
    await until(lambda: got and got[-1])  # listeners are told in the loop's own time
    assert (len(got) > 1, got[-1].partial, got[-1].data) == (True, True, data)
    await until(lambda: any("not a chunk" in line.message for line in host.service("logs").recent("made")))


def test_without_msgspec_it_is_told_what_to_install(tmp_path):
    receiver = """
    from plughost_sdk import ainb
    plugin = ainb.Plugin()
    plugin.on_batch("t")(print)
    plugin.run()
    """
    said = session(ainb_folder(tmp_path, receiver, "receiver"), INIT)
    assert (said.messages, said.code) == ([], 1)
    assert "pip install 'plughost-sdk[batch]'" in said.stderr.splitlines()[-1]
    publisher = """
    from plughost_sdk import ainb
    plugin = ainb.Plugin()
    @plugin.method
    def publish():
        plugin.host.snapshot.publish_batch("t", {})
    plugin.run()
    """
    asked = {"id": 2, "method": "publish", "params": {}}
    said = session(ainb_folder(tmp_path, publisher, "publisher"), INIT, asked)
    assert "pip install 'plughost-sdk[batch]'" in said.messages[1]["error"]["message"]


def test_handlers_of_batches_get_each_topics_own(tmp_path):
    place = ainb_folder(tmp_path, "")
    plugin = ainb.Plugin(str(place / "manifest.toml"))
    seen = []
    for topic in ("a", "b"):
        plugin.on_batch(topic)(lambda batch, topic=topic: seen.append((topic, batch.data["calls"])))
    rows = {topic: [*chunks.split({"calls": [topic * 600] * 3}, 1, target=1000)] for topic in ("a", "b")}
    with drive(plugin, place) as host:
        for one, other in zip(rows["a"], rows["b"], strict=True):
            host.event("a", one)
            host.event("b", other)
        host.call("plugin/render", {"viewport": {"width": 1, "height": 1}})
    assert seen == [("a", ["a" * 600] * 3), ("b", ["b" * 600] * 3)]
