"""The axes of the snapshot bus: events that the plugin receives, snapshots and chunks that it publishes."""

from __future__ import annotations

import base64
import binascii
from typing import Any

import msgspec

from plughost.conformance.ainb.hosted_plugin import exercise_hosted, exercise_stub, hosted, wait_until_quiet
from plughost.conformance.ainb.stub_host import NO_SUCH_METHOD, manifest_of, open_stub
from plughost.conformance.axis import Axis, Failed, Skipped, require
from plughost.conformance.conversation import Message
from plughost.conformance.jsonrpc_client import params_of
from plughost.conformance.plugin_under_test import PluginUnderTest
from plughost.contracts.ainb.chunks import TARGET, WIRE_VERSION, Chunk, UsageData
from plughost.permissions.capabilities import allows

PUBLISH = "host/snapshot/publish"
SESSIONS = "sessions."
"""The prefix of the topics that use our chunk wire version; other topics have their own."""
MANY = 200
ODD_PAYLOADS: tuple[Any, ...] = ("", "AAEC/w==", [0, 255, 1], "gA==", "bm90IG1zZ3BhY2s=")
"""Payloads that the plugin does not expect: empty, bytes, bytes in the older form, an empty map, text."""
LARGEST = int(2.7 * (1 << 20)) + (64 << 10)


async def pubsub(subject: PluginUnderTest) -> None:
    """Sends odd events and checks what the plugin publishes, with a stub host and in a real host."""
    async with open_stub(subject) as host:
        await host.init()
        await exercise_stub(subject, host)
        topics = host.topics()
        for topic in [*topics, "cts.unknown"]:
            for payload in ODD_PAYLOADS:
                host.notify("plugin/handle_event", {"topic": topic, "payload": payload})
        await host.ask(NO_SUCH_METHOD, {})
        await host.drain()
        require(not host.unsolicited(), "it answered an event, which is a notification")
        for message in host.incoming:
            _check_form(message)
    async with hosted(subject) as scene:
        await wait_until_quiet(scene)
        snapshots = scene.host.service("snapshots")
        for topic in topics:
            require(
                scene.plugin.name in snapshots.subscribers(topic),
                f"under a host it does not receive events of {topic!r}",
            )
            for _ in range(MANY):
                snapshots.put(topic, b"")
        await scene.answers()
        refused = scene.dropped(PUBLISH)
        require(not refused, f"the host dropped what it published: {', '.join(refused[:3])}")


def _check_form(message: Message) -> None:
    method, params = message["method"], params_of(message)
    if not method.startswith("host/snapshot/"):
        return
    require(isinstance(params.get("topic"), str), f"{method} needs a topic")
    if method == PUBLISH:
        require(message.get("id") is None, f"{PUBLISH} is a notification: it must have no id")
        _payload(params)
    else:
        require(message.get("id") is not None, f"{method} is a request: it must have an id")


def _payload(params: Message) -> bytes:
    payload = params.get("payload")
    require(isinstance(payload, str), f"the payload of {PUBLISH} must be a string of base64")
    try:
        return base64.b64decode(str(payload), validate=True)
    except binascii.Error as problem:
        raise Failed(f"what it published on {params.get('topic')!r} is not base64: {problem}") from None


async def chunks(subject: PluginUnderTest) -> None:
    """Checks the chunks that the plugin publishes on the topics it provides."""
    topics = manifest_of(subject).provides.snapshots
    async with open_stub(subject) as host:
        await host.init()
        await exercise_stub(subject, host)
        published = [params for message in host.received(PUBLISH) if (params := params_of(message))]
    mine = [(params["topic"], _payload(params)) for params in published if params.get("topic") in topics]
    if not mine:
        raise Skipped("it published nothing on the topics it provides; pass a --sample that makes it publish")
    for topic in topics:
        check_batches(topic, [payload for where, payload in mine if where == topic])
    heard: dict[str, list[bytes]] = {topic: [] for topic in topics}

    def listen(host: Any) -> None:
        for topic in topics:
            host.service("snapshots").listen(topic, heard[topic].append)

    async with hosted(subject, prepare=listen) as scene:
        await exercise_hosted(subject, scene, subject.resolved.topics)
    for topic, payloads in heard.items():
        check_batches(topic, payloads)


def check_batches(topic: str, payloads: list[bytes]) -> None:
    """Checks everything that was published on a topic, in order."""
    before: Chunk | None = None
    for payload in payloads:
        chunk = _chunk(topic, payload)
        if chunk is None:
            require(
                len(payload) <= TARGET * 1.05,
                f"it published {len(payload)} bytes on {topic!r} at once: above 2 MiB it must publish chunks",
            )
            continue
        _follows(topic, before, chunk)
        size = len(payload) * 4 // 3
        small = size <= LARGEST or len(chunk.data.calls) <= 1
        require(small, f"a chunk on {topic!r} is {size} bytes long in base64: 2.7 MiB is the limit")
        before = chunk
    if before is not None:
        require(before.is_final, f"the last batch on {topic!r} has no final chunk")


def _chunk(topic: str, payload: bytes) -> Chunk | None:
    """Decodes a chunk; None for other data, which the contract leaves open on other topics."""
    try:
        value = msgspec.msgpack.decode(payload)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict) or not {"version", "published_ns", "data"} <= value.keys():
        require(not topic.startswith(SESSIONS + "usage"), f"what it published on {topic!r} is not a chunk")
        return None
    try:
        chunk = msgspec.msgpack.decode(payload, type=Chunk)
    except (ValueError, RecursionError) as problem:
        raise Failed(f"a chunk on {topic!r} is wrong: {problem}") from None
    if topic.startswith(SESSIONS):
        require(chunk.version == WIRE_VERSION, f"the wire version on {topic!r} is {chunk.version}, not 3")
    return chunk


def _follows(topic: str, before: Chunk | None, chunk: Chunk) -> None:
    if before is None or before.is_final:
        require(
            chunk.chunk_index == 0, f"a batch on {topic!r} begins with chunk {chunk.chunk_index}, not with 0"
        )
    if chunk.chunk_index == 0:
        return
    assert before is not None
    require(
        chunk.chunk_index == before.chunk_index + 1,
        f"on {topic!r} chunk {chunk.chunk_index} follows chunk {before.chunk_index}",
    )
    require(
        chunk.published_ns == before.published_ns,
        f"the chunks of a batch on {topic!r} do not share published_ns",
    )
    aggregates = msgspec.structs.replace(chunk.data, calls=[])
    require(
        aggregates == UsageData(),
        f"on {topic!r} chunk {chunk.chunk_index} carries aggregates: only chunk 0 may",
    )


def _no_bus(subject: PluginUnderTest) -> str | None:
    granted = manifest_of(subject).capabilities.granted()
    return None if allows(frozenset(granted), "event_bus") else "its manifest does not declare event_bus"


def _no_snapshots(subject: PluginUnderTest) -> str | None:
    return None if manifest_of(subject).provides.snapshots else "its manifest provides no snapshots"


AXES = (
    Axis(
        name="pubsub",
        promise="accepts any event, including the older byte form and events it cannot read; answers none of "
        "them; publishes base64 in notifications",
        test=pubsub,
        skip_reason=_no_bus,
    ),
    Axis(
        name="chunks",
        promise="publishes large data in chunks: numbered from 0, all with the same published_ns, "
        "aggregates only in the first chunk, and `final` only in the last",
        test=chunks,
        skip_reason=_no_snapshots,
    ),
)
