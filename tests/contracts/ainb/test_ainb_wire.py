"""ainb: what goes over the wire, both ways."""

from __future__ import annotations

import asyncio
import json

import msgspec
import pytest

import plughost
from plughost.contracts.ainb import messages
from plughost.contracts.ainb.contract import ABI_VERSION, Ainb
from plughost.contracts.ainb.manifest import AinbAbout, AinbManifest
from plughost.contracts.ainb.messages import (
    ALT,
    CTRL,
    Cell,
    Char,
    Color,
    Coord,
    Esc,
    F,
    HandleEventParams,
    KeyEvent,
    RenderResult,
    WireBuffer,
)
from plughost.contracts.ainb.session import AinbPluginSide, AinbSession
from plughost.engine.caller import Publication
from plughost.events import Dropped, Linted
from plughost.wire.base64_bytes import decode_plain
from plughost.wire.framing import FrameError, FrameTooLarge
from plughost.wire.ledger import FOREVER
from plughost.wire.messages import ABSENT, Notification, Request, Response, Unusable
from tests.support import all_gone, seen, until
from tests.support.ainb import ask, b64, folder, spec


@pytest.fixture
def place(tmp_path, mark):
    """The puppet's folder; its path carries the mark, and so does every process."""
    return folder(tmp_path / mark)


def session(granted=()) -> AinbSession:
    return AinbSession(AinbManifest(AinbAbout("puppet", "1.2.3", 2)), "/p/manifest.toml", granted)


def framed(body: bytes) -> str:
    return f"Content-Length: {len(body)}\r\n\r\n" + body.decode("latin-1")


# Framing


@pytest.mark.clause("AINB-10")
@pytest.mark.parametrize(
    ("stream", "frames"),
    [
        (b"content-length: 2\r\n\r\nok", [b"ok"]),
        (b"Content-Length: 0\r\n\r\n", [b""]),
        (b" Content-Length : +02 \r\n\r\nok", [b"ok"]),
        (b"Content-Length: 9\r\nContent-Length: 2\r\n\r\nok", [b"ok"]),
        (b"\r\n", None),
        (b"Content-Length: -1\r\n\r\n", None),
        (b"Content-Length: abc\r\n\r\n", None),
        (b"Content-Length: 1_0\r\n\r\n", None),
        (b"Content-Type: application/json\r\nContent-Length: 0\r\n\r\n", None),
        (b"Content-Length: 0\n\n", None),
        (b"Content-Length: 16777217\r\n\r\n", None),
        (b"Content-Length: 0\r\n" * 2000, None),
        (b"x" * 9000, None),
    ],
)
def test_headers_are_read_strictly_and_within_bounds(stream, frames):
    for pieces in ([stream], [bytes([byte]) for byte in stream]):
        framing = session().framing()
        read = [frame for piece in pieces for frame in framing.feed(piece)]
        if frames is None:
            assert isinstance(read[-1], FrameError)
        else:
            assert read == frames


@pytest.mark.clause("AINB-10")
def test_a_body_of_exactly_16_mib_passes():
    framing = session().framing()
    body = b"x" * (16 << 20)
    assert framing.encode(body).endswith(body)
    assert framing.feed(b"Content-Length: 16777216\r\n\r\n" + body) == [body]


@pytest.mark.clause("AINB-11")
@pytest.mark.parametrize("text", ["Content-Le", "Content-Length: 50\r\n\r\n{}", "noise\n"])
async def test_a_stream_that_ends_or_breaks_inside_a_frame_is_a_failure(host, place, mark, text):
    plugin = await host.add(spec(place, failure_limit=1))
    await plugin.call("echo", {})
    tasks = [asyncio.create_task(plugin.call("raw", {"text": text}))]
    if text != "noise\n":
        tasks.append(asyncio.create_task(plugin.call("exit", {"code": 0})))
    for outcome in await asyncio.gather(*tasks, return_exceptions=True):
        assert isinstance(outcome, plughost.Crashed | plughost.Malformed)
    assert (plugin.state, seen(plugin)["failures"]) == ("Quarantined", 1)
    await all_gone(mark)


@pytest.mark.clause("AINB-12")
@pytest.mark.parametrize(
    "body",
    [
        b"not json",
        b"[]",
        b'[{"jsonrpc":"2.0","id":1,"method":"host/log"}]',
        b'{"jsonrpc":"1.0","id":1,"result":null}',
        b'{"id":1,"result":null}',
        b'{"jsonrpc":"2.0","result":{}}',
        b'{"jsonrpc":"2.0","id":"x","result":{}}',
        b'{"jsonrpc":"2.0","id":1.5,"method":"host/log"}',
        b'{"jsonrpc":"2.0","id":7,"error":{"code":"x","message":"y"}}',
        b'{"jsonrpc":"2.0","id":7,"error":"no"}',
        b'{"jsonrpc":"2.0","id":7,"result":"\xff"}',
        b"",
        b"null",
    ],
)
async def test_what_is_no_message_is_dropped_and_the_link_lives(host, place, body):
    plugin = await host.add(spec(place))
    await plugin.call("echo", {})
    before = seen(plugin)["dropped"]
    with host.events() as told:
        raw = asyncio.create_task(plugin.call("raw", {"text": framed(body)}, timeout=20))
        event = await told.get()
        assert isinstance(event, Dropped)
        assert await plugin.call("echo", {"still": "here"}) == {"still": "here"}
    assert seen(plugin)["dropped"] == before + 1
    raw.cancel()
    await asyncio.gather(raw, return_exceptions=True)


@pytest.mark.clause("AINB-12")
@pytest.mark.parametrize(
    "body",
    [
        b'{"jsonrpc":"2.0","id":%d,"result":"\\x00"}',
        b'{"jsonrpc": "2.0", "result": [1,}, "id": %d}',
        b'{"jsonrpc":"2.0","id":%d,"result":"\xff"}',
        b'{"jsonrpc":"2.0","id":%d,"error":"no"}',
    ],
)
async def test_a_broken_answer_fails_a_call_that_would_wait_for_ever_and_no_other(host, place, body):
    plugin = await host.add(spec(place))
    await plugin.call("echo", {})
    number = 3
    with host.events() as told:
        raw = asyncio.create_task(plugin.call("raw", {"text": framed(body % number)}, timeout=FOREVER))
        with pytest.raises(plughost.Malformed, match="JSON|error"):
            await raw
        assert isinstance(await told.get(), Dropped)
        patient = asyncio.create_task(plugin.call("raw", {"text": framed(body % (number + 1))}, timeout=20))
        assert isinstance(await told.get(), Dropped)
        assert await plugin.call("echo", {"still": "here"}) == {"still": "here"}
        assert not patient.done()
    patient.cancel()
    await asyncio.gather(patient, return_exceptions=True)


@pytest.mark.clause("AINB-12")
async def test_a_frame_past_the_limit_fails_at_its_caller_and_never_reaches_the_wire(host, place):
    plugin = await host.add(spec(place))
    await plugin.call("echo", {})
    with pytest.raises(plughost.InvalidSpec, match="over the limit"):
        await plugin.call("echo", {"text": "x" * (16 << 20)})
    assert await plugin.call("echo", {}) == {}
    with pytest.raises(FrameTooLarge):
        one = session()
        Publication("t", b"x" * (16 << 20)).frame(one, one.framing())


# JSON-RPC


@pytest.mark.clause("AINB-15")
async def test_ids_rise_from_one_and_each_side_has_its_own(host, place):
    plugin = await host.add(spec(place))
    assert await plugin.call("echo", {"n": 1}) == {"n": 1}
    # The plugin's own id 1 is answered while ours are open.
    assert await ask(plugin, "host/snapshot/get", {"topic": "t"}, id=1) == {"payload": None, "version": 0}
    assert await ask(plugin, "host/snapshot/get", {"topic": "t"}, id="a string") == {
        "payload": None,
        "version": 0,
    }
    assert json.loads(session().on_start(None)[0])["id"] == 1
    assert session().first_id == 2


@pytest.mark.clause("AINB-15")
async def test_empty_is_an_object_and_never_null(host, place):
    one = session()
    for message in (one.encode_call(2, "m", None, None), one.encode_notification("m", ABSENT)):
        assert json.loads(message)["params"] == {}
    assert json.loads(one.encode_response(1, None)) == {"jsonrpc": "2.0", "id": 1, "result": {}}
    plugin = await host.add(spec(place))
    assert await ask(plugin, "host/snapshot/subscribe", {"topic": "t"}) == {}


@pytest.mark.clause("AINB-16", "AINB-17")
@pytest.mark.parametrize(
    ("method", "params", "capabilities", "code", "message"),
    [
        ("host/nonsense", {}, {}, -32601, "method not found: host/nonsense"),
        ("host/snapshot/publish", {"topic": "t", "payload": ""}, {}, -32601, "method not found: host/snapshot/publish"),
        ("host/snapshot/get", {"topic": 1}, None, -32602, "wrong params"),
        ("host/snapshot/get", {}, None, -32602, "wrong params"),
        ("host/snapshot/get", {"topic": "t"}, {}, -32001, "capability denied: event_bus"),
        ("host/snapshot/get", {"wrong": 1}, {}, -32001, "capability denied: event_bus"),
        ("host/snapshot/subscribe", [], {"event_bus": []}, -32001, "capability denied: event_bus"),
        ("host/network/fetch", {"wrong": 1}, {}, -32001, "capability denied: network"),
        ("host/fs/read_file", {"wrong": 1}, {}, -32001, "capability denied: fs"),
        ("host/fs/read_file", {"wrong": 1}, {"read_sessions": True}, -32602, "wrong params"),
        ("host/action/invoke", {"action": "nobody's", "payload": ""}, {}, -32602, "unknown action: nobody's"),
        ("host/action/invoke", {"action": "x", "payload": "!"}, {}, -32602, "wrong params"),
    ],
)  # fmt: skip
async def test_errors_have_the_contracts_codes_and_capabilities_come_before_params(
    host, tmp_path, mark, method, params, capabilities, code, message
):
    plugin = await host.add(spec(folder(tmp_path / mark, capabilities=capabilities)))
    error = await ask(plugin, method, params)
    assert error["code"] == code
    assert error["message"].startswith(message)


@pytest.mark.clause("AINB-16", "AINB-74")
async def test_unknown_notifications_and_members_are_ignored_and_unknown_codes_pass_through(host, place):
    plugin = await host.add(spec(place))
    await plugin.call("tell", {"method": "host/unheard_of", "params": {}})
    await plugin.call("tell", {"method": "host/log", "params": {"level": "info", "message": "m", "new": 1}})
    assert await ask(plugin, "host/snapshot/get", {"topic": "t", "future": True}) == {
        "payload": None,
        "version": 0,
    }
    for code in (-32601, -32005, 7):
        with pytest.raises(plughost.CallFailed) as caught:
            await plugin.call("fail", {"code": code, "message": "no", "data": {"a": 1}})
        assert caught.value.error == {"code": code, "message": "no", "data": {"a": 1}}


def test_a_session_takes_any_message_apart():
    one = session()
    one.ready = True

    def take(**members):
        return one.receive(json.dumps({"jsonrpc": "2.0", **members}).encode())

    assert take(id=3, result={}) == Response(3, msgspec.Raw(b"{}"))
    assert take(id=3) == Response(3, msgspec.Raw(b"null"))
    assert take(id=3, result=1, error=None) == Response(3, msgspec.Raw(b"1"))
    assert isinstance(take(id=3, result=1, error={"code": 1, "message": ""}).error, msgspec.Raw)
    assert take(id="x", method="m", params={}) == Request("x", "m", msgspec.Raw(b"{}"))
    assert take(method="m", params=[]) == Notification("m", msgspec.Raw(b"[]"))
    assert take(id=None, method="m") == Notification("m")
    assert isinstance(take(id=True, result=1), Unusable)
    for version in ('"jsonrpc":"1.0",', '"jsonrpc":2.0,', ""):
        assert isinstance(one.receive(b'{%b"id":3,"result":1}' % version.encode()), Unusable)


@pytest.mark.clause("AINB-15", "AINB-20")
def test_the_two_sides_talk_to_each_other_without_any_io():
    manifest = AinbManifest(AinbAbout("puppet", "1.2.3", 2))
    host, plugin = session(), AinbPluginSide()
    to_plugin, to_host = plugin.framing(), host.framing()

    def sent(message):
        (frame,) = to_plugin.feed(host.framing().encode(message))
        return plugin.receive(frame)

    def said(message):
        (frame,) = to_host.feed(plugin.framing().encode(message))
        return host.receive(frame)

    init = sent(host.on_start(None)[0])
    assert (init.id, init.method, msgspec.json.decode(init.params)["abi_version"]) == (1, "plugin/init", 2)
    # The plugin asks before it answers, with an id that is ours, too.
    asked = said(plugin.encode_call(1, "host/snapshot/get", {"topic": "t"}, None))
    assert asked == Request(1, "host/snapshot/get", msgspec.Raw(b'{"topic":"t"}'))
    refused = sent(host.encode_error(1, plughost.Denied("capability denied: event_bus")))
    assert plugin.to_exception("host/snapshot/get", refused).error["code"] == -32001
    assert not host.ready
    assert said(plugin.encode_response(init.id, plugin.init_result(manifest))) is None
    assert (host.ready, host.lints) == (True, ())
    assert sent(host.encode_publication("t", b"hi")).method == "plugin/handle_event"
    assert said(plugin.encode_notification("host/log", {"level": "info"})).method == "host/log"
    assert sent(host.encode_call(2, *host.shutdown_request(), None)).method == "plugin/shutdown"


# plugin/init


@pytest.mark.clause("AINB-20")
async def test_init_is_first_and_tells_what_is_granted(host, tmp_path, mark):
    place = folder(
        tmp_path / mark, capabilities={"event_bus": True, "network": ["a.example"], "read_sessions": []}
    )
    plugin = await host.add(spec(place))
    (method, params), *_ = await plugin.call("received")
    assert method == "plugin/init"
    assert params == {
        "manifest_path": str(place / "manifest.toml"),
        "granted_capabilities": ["event_bus", "network"],
        "abi_version": ABI_VERSION,
    }


@pytest.mark.clause("AINB-20")
async def test_name_and_version_alone_are_accepted_with_a_lint(host, place):
    plugin = await host.add(spec(place, env={"init": "short"}))
    with host.events() as told:
        assert await plugin.call("echo", {}) == {}
        event = await told.get()
        while not isinstance(event, Linted):
            event = await told.get()
    assert "abi_version" in event.what


@pytest.mark.clause("AINB-18", "AINB-20")
@pytest.mark.parametrize(
    ("how", "why"),
    [
        ("other name", "somebody"),
        ("other version", "9.9.9"),
        ("other abi", "3"),
        ("other manifest", "another"),
        ("no manifest", "answer to plugin/init"),
        ("refuse", "-32003 manifest TOML invalid: no"),
        ("list", "answer to plugin/init"),
        ("empty", "its name or its version"),
        ("crash", "code 3"),
    ],
)
async def test_an_init_that_does_not_fit_is_a_failure_with_its_reason(host, place, mark, how, why):
    plugin = await host.add(spec(place, env={"init": how}, failure_limit=1))
    with pytest.raises(plughost.PluginError) as caught:
        await plugin.call("echo", {})
    assert why in str(caught.value)
    assert seen(plugin)["failures"] == 1
    await all_gone(mark)


@pytest.mark.clause("AINB-20")
@pytest.mark.parametrize("how", ["ask first", "publish first", "publish before init"])
async def test_the_host_serves_before_and_during_init(host, place, how):
    plugin = await host.add(spec(place, env={"init": how}))
    assert await asyncio.wait_for(plugin.call("echo", {}), 10) == {}
    if how == "ask first":
        received = await plugin.call("received")
        assert {"jsonrpc": "2.0", "id": 1, "result": {}} in received
    else:
        got = await ask(plugin, "host/snapshot/get", {"topic": "early"})
        assert (got["version"], got["payload"]) == (
            1,
            b64(how.replace("publish first", "from init").replace("publish before", "before")),
        )


# Types


@pytest.mark.clause("AINB-22", "AINB-40")
async def test_a_frame_is_a_sparse_buffer_clipped_to_its_size(host, place):
    plugin = await host.add(spec(place))
    result = await _view(plugin).render(40, 4, deadline=60)
    assert (result.buffer.width, result.buffer.height, len(result.buffer.cells)) == (40, 4, 5)
    shown = result.buffer.inside()
    assert [cell.symbol for _, cell in shown] == list("40x4")
    assert shown[0] == (Coord(0, 0), Cell("4", fg=Color(255, 0, 0), modifier=1))


def _view(plugin):
    return (
        Ainb(getattr(plugin, "asynchronous", plugin)) if not hasattr(plugin, "_plugin") else _Awaited(plugin)
    )


class _Awaited:
    """The view of a plugin whose loop is another thread's."""

    def __init__(self, plugin):
        self._loop = plugin._plugin._loop
        self._ainb = Ainb(plugin._plugin.asynchronous)

    async def render(self, *size, deadline):
        return await asyncio.wrap_future(self._loop.submit(self._ainb.render(*size, deadline=deadline)))

    async def cli(self, *words):
        return await asyncio.wrap_future(self._loop.submit(self._ainb.cli(*words)))


@pytest.mark.clause("AINB-26", "AINB-40")
@pytest.mark.parametrize(
    "wrong",
    [
        {"width": 70000, "height": 1},
        {"width": -1, "height": 1},
        {
            "width": 1,
            "height": 1,
            "cells": [[{"x": 0, "y": 0}, {"symbol": "a", "fg": {"r": 256, "g": 0, "b": 0}}]],
        },
        {"width": 1, "height": 1, "cells": [[{"x": 0, "y": 0}]]},
        {"width": 1, "height": 1, "cells": [[{"x": 0}, {"symbol": "a"}]]},
        {"width": 1.5, "height": 1},
    ],
)
def test_a_number_out_of_range_is_a_decode_error(wrong):
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(json.dumps({"buffer": wrong}), type=RenderResult)


@pytest.mark.clause("AINB-40")
def test_style_bits_and_odd_cells_are_read(host):
    text = '{"width":2,"height":1,"cells":[[{"x":0,"y":0},{"symbol":"a","fg":null,"modifier":80}],[{"x":0,"y":0},{"symbol":"b"}]]}'
    buffer = msgspec.json.decode(text, type=WireBuffer)
    assert [cell.symbol for _, cell in buffer.inside()] == ["a", "b"]
    assert buffer.cells[0][1].modifier == messages.REVERSED | messages.REVERSED_TOO
    assert msgspec.json.encode(Cell("X")) == b'{"symbol":"X"}'


@pytest.mark.clause("AINB-26", "AINB-41")
@pytest.mark.parametrize(
    ("key", "wire"),
    [
        (KeyEvent(Esc()), {"code": {"type": "esc"}, "mods": 0, "kind": "press"}),
        (
            KeyEvent(Char("z"), CTRL | ALT, "repeat"),
            {"code": {"type": "char", "ch": "z"}, "mods": 6, "kind": "repeat"},
        ),
        (KeyEvent(F(7), kind="release"), {"code": {"type": "f", "n": 7}, "mods": 0, "kind": "release"}),
    ],
)
def test_keys_have_the_contracts_tags(key, wire):
    assert msgspec.to_builtins(key) == wire
    assert msgspec.convert(wire, KeyEvent) == key


@pytest.mark.clause("AINB-26", "AINB-41")
def test_every_code_there_is():
    tags = [
        "enter",
        "tab",
        "back_tab",
        "esc",
        "backspace",
        "delete",
        "up",
        "down",
        "left",
        "right",
        "home",
        "end",
        "page_up",
        "page_down",
    ]
    for tag in tags:
        key = msgspec.json.decode(json.dumps({"code": {"type": tag}}), type=KeyEvent)
        assert (msgspec.to_builtins(key.code), key.mods, key.kind) == ({"type": tag}, 0, "press")
    for wrong in ({"type": "char", "ch": "ab"}, {"type": "char"}, {"type": "insert"}, {"type": "f", "n": 0}):
        with pytest.raises(msgspec.ValidationError):
            msgspec.convert({"code": wrong}, KeyEvent)


@pytest.mark.clause("AINB-42")
def test_bytes_are_padded_base64_and_arrays_are_read():
    assert json.loads(session().encode_publication("t", b"hi"))["params"] == {"topic": "t", "payload": "aGk="}
    for wire in (b'{"topic":"t","payload":"aGk="}', b'{"topic":"t","payload":[104,105]}'):
        assert decode_plain(msgspec.json.decode(wire, type=HandleEventParams).payload) == b"hi"
    for wrong in ('"aGk"', '"a!"', "[256]", "[-1]", "[1.5]", "5", "null", '{"a":1}'):
        with pytest.raises(msgspec.ValidationError):
            msgspec.json.decode(f'{{"topic":"t","payload":{wrong}}}', type=HandleEventParams)


@pytest.mark.clause("AINB-25")
async def test_a_command_line_gives_its_exact_bytes_and_code(host, place):
    plugin = await host.add(spec(place))
    result = await _view(plugin).cli("usage", ["--json", "é"])
    assert result == ("usage --json é\n".encode() + b"\xff", b"warned\n", 7)


@pytest.mark.clause("AINB-23", "AINB-24")
async def test_keys_overtake_what_waits_and_events_keep_their_order(slow_host, place):
    """The plugin does not read: 10,000 events and a hundred requests wait, then a key comes."""
    plugin = await slow_host.add(spec(place))
    view = Ainb(plugin)
    await plugin.call("echo", {})
    calls = [asyncio.create_task(plugin.call("sleep", {"seconds": 0.3}))]
    await until(lambda: seen(plugin)["in_flight"] == 1)
    count = 10_000
    for n in range(count):
        assert view.event("t", str(n).encode())
    calls += [asyncio.create_task(plugin.call("echo", {"n": n})) for n in range(100)]
    await asyncio.sleep(0)
    for word in "ab":
        assert view.key("main", KeyEvent(Char(word)))
    await asyncio.gather(*calls)
    received = [entry for entry in await plugin.call("received") if entry[0] != "plugin/init"]
    keys = [at for at, (method, _) in enumerate(received) if method == "plugin/handle_key"]
    assert [received[at][1]["key"]["code"]["ch"] for at in keys] == ["a", "b"]
    assert keys[-1] < count // 2  # what the pipe held already came first, everything else after it
    got = [params["payload"] for method, params in received if method == "plugin/handle_event"]
    assert got == [b64(str(n)) for n in range(count)]


@pytest.mark.clause("AINB-22", "AINB-24")
async def test_a_frame_is_asked_for_ahead_of_the_events_that_wait(slow_host, place):
    """The plugin does not read while 10,000 events wait; the screen does not stand still until it has read all."""
    plugin = await slow_host.add(spec(place))
    view = Ainb(plugin)
    await plugin.call("echo", {})
    busy = asyncio.create_task(plugin.call("sleep", {"seconds": 0.3}))
    await until(lambda: seen(plugin)["in_flight"] == 1)
    count = 10_000
    for n in range(count):
        assert view.event("t", str(n).encode())
    late = asyncio.create_task(plugin.call("echo", {}))
    await asyncio.sleep(0)
    frame = asyncio.create_task(view.render(9, 2))
    done, _ = await asyncio.wait([frame, late], return_when=asyncio.FIRST_COMPLETED)
    assert frame in done
    assert late not in done
    await asyncio.gather(busy, late)
    received = [entry for entry in await plugin.call("received") if entry[0] != "plugin/init"]
    got = [params["payload"] for method, params in received if method == "plugin/handle_event"]
    assert got == [b64(str(n)) for n in range(count)]
