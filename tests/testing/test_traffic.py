"""What goes over the wires: seen, kept, without its secrets."""

from __future__ import annotations

import asyncio
import json
import stat

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import plughost
from plughost import sync
from plughost.engine.io.tap import Origin
from plughost.testing import Recorder, Traffic, drive
from plughost.testing.frame_splitter import FrameSplitter, UnreadableTraffic, value
from tests.support import puppet, rune_puppet
from tests.unit.testing.test_driver import echo_plugin

SECRET = "hunter2-hunter2"
NAMES = {"token", "password"}
LINES, BODIES = Origin("p", "mcptest", "Lines"), Origin("p", "ainb", "ContentLength")


async def test_a_tap_sees_every_byte_of_every_process(mark):
    recorder = Recorder()
    async with plughost.Host(tap=recorder) as host:
        plugin = await host.add(puppet(mark, name="first"))
        assert await plugin.call("echo", "é") == "é"
        await plugin.call("big", 200_000)
        await plugin.call("echo", "x" * 200_000)  # more than the pipe takes at once
        await plugin.reload()
        await plugin.call("ping")
        tool = await host.add(rune_puppet(mark=mark))
        await tool.call("echo", {"n": 1})
        await tool.call("echo", {"n": 2})
    first, second, *calls = recorder.conversations
    requests = [json.loads(line) for line in first.bytes("out").splitlines()]
    assert [request["method"] for request in requests] == ["echo", "big", "echo"]
    assert requests[2]["params"] == "x" * 200_000
    answers = [json.loads(line)["result"] for line in first.bytes("in").splitlines()]
    assert answers == ["é", "x" * 200_000, "x" * 200_000]
    assert first.origin == Origin("first", "mcptest", "Lines", 1)
    assert (second.origin.generation, len(second.bytes("in").splitlines())) == (2, 1)
    assert [call.origin.contract for call in calls] == ["rune", "rune"]


async def test_a_tap_that_fails_harms_nobody_but_is_told(mark):
    told = []

    def deaf(origin):
        def listen(way, data):
            raise RuntimeError(way)

        return listen

    asyncio.get_running_loop().set_exception_handler(lambda loop, context: told.append(context))
    async with plughost.Host(tap=deaf) as host:
        assert await (await host.add(puppet(mark))).call("ping") == "pong"
    assert [str(context["exception"]) for context in told] == ["out", "in"]
    assert "tap on puppet" in told[0]["message"]
    async with plughost.Host(tap=lambda origin: None) as host:
        assert await (await host.add(puppet(mark))).call("ping") == "pong"


def test_the_host_without_a_loop_has_the_same_tap(mark):
    recorder = Recorder()
    with sync.Host(tap=recorder) as host:
        host.add(puppet(mark)).call("ping")
    assert b"ping" in recorder.conversations[0].bytes("out")


async def test_a_recorder_keeps_so_much_and_no_more(mark):
    recorder = Recorder(most=4096)
    async with plughost.Host(tap=recorder) as host:
        plugin = await host.add(puppet(mark))
        await plugin.call("ping")
        await plugin.call("echo", "x" * 5000)
        await plugin.call("ping")
        await plugin.reload()
        await plugin.call("ping")
    assert recorder.full
    assert len(recorder.conversations) == 1
    assert recorder.conversations[0].bytes("out") == b'{"method":"ping","id":1}\n'


def test_traffic_is_saved_for_this_user_and_read_again(tmp_path):
    with drive(echo_plugin()) as host:
        host.call("echo", "é\n\x00")
    host.traffic.save(tmp_path / "traffic")
    assert stat.S_IMODE((tmp_path / "traffic").stat().st_mode) == 0o600
    again = Traffic.load(tmp_path / "traffic")
    assert (again.origin, again.passages) == (host.traffic.origin, host.traffic.passages)
    assert again.origin == Origin("plugin", "mcptest", "Lines")


@pytest.mark.parametrize(
    "text",
    ["", "{}", '{"way":"in","data":""}', "\udcff", '{"plugin":"p","contract":"c","framing":"Lines"}\n{}'],
)
def test_what_is_no_traffic_is_told(tmp_path, text):
    (tmp_path / "t").write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises(plughost.InvalidSpec, match="is not recorded traffic"):
        Traffic.load(tmp_path / "t")


# Redaction

plain = st.text(st.characters(codec="utf-8"), max_size=3).filter(lambda text: SECRET not in text)
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**40), 2**40) | plain,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(plain.filter(lambda key: key.lower() not in NAMES), inner, max_size=3)
    ),
    max_leaves=6,
)


def hiding(value):
    """A value with a secret somewhere in it, and what is to be left of it."""
    return st.sampled_from(
        [
            ({"token": SECRET, "rest": value}, {"token": "***", "rest": value}),
            ([value, {"Password": [{"deep": SECRET}]}], [value, {"Password": "***"}]),
            ({"headers": [["token", SECRET]], "a": value}, {"headers": [["token", "***"]], "a": value}),
            ({"a": {"token": SECRET}, "b": f"no, {SECRET}!"}, {"a": {"token": "***"}, "b": "no, ***!"}),
            ({"token": {SECRET: value}}, {"token": "***"}),
            (value, value),
        ]
    )


messages = st.lists(values.flatmap(hiding), min_size=1, max_size=4)


def framed(origin, body, extra):
    if origin is LINES:
        return body + (b"\r\n" if extra else b"\n")
    return (b"Content-Type: x\r\n" if extra else b"") + b"content-length:%d\r\n\r\n" % len(body) + body


@given(messages, st.sampled_from([LINES, BODIES]), st.booleans(), st.data())
def test_however_it_was_cut_no_secret_stays_and_all_else_does(pairs, origin, extra, data):
    stream = b"".join(framed(origin, json.dumps(before).encode(), extra) for before, _ in pairs)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=8)))
    traffic = Traffic(origin)
    for start, stop in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        traffic.add("in", stream[start:stop])
        traffic.add("out", framed(origin, b'"between"', extra))
    clean = traffic.redacted(NAMES)
    assert SECRET.encode() not in clean.bytes("in")
    frames = FrameSplitter(origin.framing).feed("in", clean.bytes("in"))
    assert [json.loads(frame) for frame in frames] == [after for _, after in pairs]
    assert clean.bytes("out").count(b'"between"') == len(cuts) + 1


@given(st.binary(max_size=60), st.sampled_from([LINES, BODIES]), st.integers(0, 100))
def test_what_cannot_be_read_is_hidden_whole(noise, origin, cut):
    stream = noise + SECRET.encode() + noise
    assume(all(value(line) is UnreadableTraffic for line in stream.splitlines() if SECRET.encode() in line))
    traffic = Traffic(origin)
    traffic.add("in", stream[:cut])
    traffic.add("in", stream[cut:])
    assert SECRET.encode() not in traffic.redacted(NAMES).bytes("in")


def test_odd_spellings_hide_no_secret():
    traffic = Traffic(LINES)
    for line in (
        rb'{"\u0074oken":"%s"}',
        b'{"token":"%s","token":1}',
        b'{"a":{"token":"%s"},"a":1}',
        b'{"token":"%s"',
        b'{"token":"%s\xff"}',
        b"[%s]",
        b"[" * 300 + b'{"token":"%s"}' + b"]" * 300,
    ):
        traffic.add("out", line % SECRET.encode() + b"\n")
    clean = traffic.redacted(NAMES).bytes("out").splitlines()
    assert clean == [b'{"token":"***"}', b'{"token":"***"}', b'{"a":1}', *[b'"***"'] * 4]


def test_a_secret_that_comes_up_before_it_is_named_is_hidden_too():
    traffic = Traffic(LINES)
    traffic.add("in", f'{{"hello":"{SECRET}"}}\n'.encode())
    traffic.add("out", f'{{"token":"{SECRET}"}}\n\n'.encode())
    clean = traffic.redacted(["token"])
    assert clean.bytes("in") == b'{"hello":"***"}\n'
    assert clean.bytes("out") == b'{"token":"***"}\n\n'


def test_a_framing_of_a_contract_of_its_own_is_hidden_altogether():
    traffic = Traffic(Origin("p", "other", "Netstrings"))
    traffic.add("out", b"2:{},")
    assert traffic.redacted(["token"]).bytes("out") == b"***"


async def test_what_a_plugin_writes_to_stderr_is_not_recorded(mark):
    recorder = Recorder()
    async with plughost.Host(tap=recorder) as host:
        await (await host.add(puppet(mark))).call("stderr", "words\n")
    assert recorder.conversations[0].bytes("in") == b'{"id": 1, "result": null}\n'
