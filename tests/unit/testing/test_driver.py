"""Plugin objects driven in-process, over memory, through framing and protocol."""

from __future__ import annotations

import base64
import threading
import time

import pytest

import plughost
from plughost.testing import drive
from plughost.testing.duplex import cut, delay, drop, garble, split
from plughost_sdk import ainb, mcptest, rune
from tests.support.sdk import ainb_folder


def echo_plugin() -> mcptest.Plugin:
    plugin = mcptest.Plugin()
    plugin.method("echo")(lambda params: params)

    @plugin.method
    def no(params):
        raise mcptest.Error(7, "no")

    return plugin


def test_a_plugin_is_driven_without_a_process():
    before = set(threading.enumerate())
    with drive(echo_plugin()) as host:
        assert host.call("echo", {"text": "hi"}) == {"text": "hi"}
        with pytest.raises(plughost.CallFailed) as caught:
            host.call("no", 1)
        assert caught.value.error["code"] == 7
    assert before.issuperset(threading.enumerate())
    assert host.traffic.bytes("out") == (
        b'{"method":"echo","id":1,"params":{"text":"hi"}}\n{"method":"no","id":2,"params":1}\n'
    )


def test_a_rune_plugin_is_driven_too():
    plugin = rune.Plugin("example.echo", "1.0.0")
    plugin.tool("echo")(lambda input: input)
    spec = plughost.PluginSpec(contract="rune", name="example.echo", command=["in-process"])
    with drive(plugin, spec, first="echo") as host:
        assert host.call("echo", {"a": 1}) == {"a": 1}


@pytest.fixture
def place(tmp_path):
    return ainb_folder(tmp_path, "", subscribes={"snapshots": ["t"]})


def made(place) -> tuple[ainb.Plugin, list[object]]:
    plugin = ainb.Plugin(str(place / "manifest.toml"))
    seen: list[object] = []

    @plugin.on_init
    def start():
        plugin.host.snapshot.publish("started", b"yes")

    @plugin.on("t")
    def event(payload):
        seen.append((payload, plugin.host.snapshot.get("other")))

    @plugin.screen
    def draw(width, height):
        buffer = ainb.Buffer(width, height)
        buffer.put(0, 0, "ok")
        return buffer

    @plugin.method("refused")
    def refused(params):
        try:
            plugin.host.fs.read_file("/etc/passwd")
        except ainb.Error as error:
            return error.code

    return plugin, seen


@pytest.mark.clause("AINB-72")
def test_an_ainb_plugin_with_a_scripted_host(place):
    plugin, seen = made(place)
    payload = base64.b64encode(b"value").decode()
    answers = {
        "host/snapshot/get": lambda params: {"payload": payload, "version": len(params["topic"])},
        "host/fs/read_file": plughost.Denied("capability denied: fs"),
    }
    with drive(plugin, place, answers=answers) as host:
        assert host.notifications == [
            ("host/snapshot/publish", {"topic": "started", "payload": base64.b64encode(b"yes").decode()})
        ]
        host.event("t", b"one")
        frame = host.call("plugin/render", {"viewport": {"width": 2, "height": 1}})
        assert [cell["symbol"] for _, cell in frame["buffer"]["cells"]] == ["o", "k"]
        assert seen == [(b"one", (b"value", 5))]
        assert host.call("refused", {}) == -32001
        asked = ["host/snapshot/subscribe", "host/snapshot/get", "host/fs/read_file"]
        assert [method for method, _ in host.requests] == asked
        del host.answers["host/fs/read_file"]
        assert host.call("refused", {}) == -32601
        assert host.dropped == []


@pytest.mark.parametrize("size", [1, 2, 7, 1000])
def test_any_split_is_the_same(place, size):
    with drive(made(place)[0], place, to_plugin=split(size), from_plugin=split(size)) as host:
        assert host.call("plugin/render", {"viewport": {"width": 1, "height": 1}})["buffer"]["width"] == 1
    with drive(echo_plugin(), to_plugin=split(size), from_plugin=split(size)) as host:
        assert host.call("echo", "x" * 500) == "x" * 500


WAYS = ("to_plugin", "from_plugin")


@pytest.mark.parametrize("way", WAYS)
def test_what_is_lost_is_waited_for_in_vain(way):
    with drive(echo_plugin(), **{way: drop(1)}) as host:
        with pytest.raises(plughost.Timeout, match="answer to 'echo'"):
            host.call("echo", 1, timeout=0.05)
        assert host.call("echo", 2) == 2


@pytest.mark.parametrize("way", WAYS)
def test_what_is_late_takes_its_time_by_the_clock(way, plughost_clock):
    start = time.monotonic()
    with drive(echo_plugin(), **{way: delay(30)}, clock=plughost_clock) as host:
        before = plughost_clock.time()
        assert host.call("echo", 1, timeout=31) == 1
        assert plughost_clock.time() == before + 30
        with pytest.raises(plughost.Timeout, match="within 29 s"):
            host.call("echo", 2, timeout=29)
        assert host.call("echo", 3, timeout=61) == 3  # after the late answer, which nobody waits for any more
    assert time.monotonic() - start < 10


@pytest.mark.parametrize("way", WAYS)
def test_what_is_late_loses_nothing_and_keeps_its_order(way, place):
    with drive(made(place)[0], place, **{way: delay(1)}) as host:
        for width in range(3):
            answer = host.call("plugin/render", {"viewport": {"width": width, "height": 1}})
            assert answer["buffer"]["width"] == width


def test_what_is_garbled_is_told_as_what_it_is():
    with drive(echo_plugin(), to_plugin=garble(1)) as host:
        with pytest.raises(plughost.Malformed):  # the plugin could not read an id that it might echo
            host.call("echo", 1)
        assert host.call("echo", 2) == 2
    with pytest.raises(plughost.Malformed), drive(echo_plugin(), from_plugin=garble(1)) as host:
        host.call("echo", 1)


@pytest.mark.parametrize("way", WAYS)
def test_a_stream_that_is_cut_ends_the_talk(place, way):
    with (
        pytest.raises(plughost.Crashed, match="ended before"),
        drive(echo_plugin(), **{way: cut(1, 0)}) as host,
    ):
        host.call("echo", 1)
    with pytest.raises(plughost.PluginError), drive(made(place)[0], place, **{way: cut(2, 5)}) as host:
        host.call("plugin/render", {"viewport": {"width": 1, "height": 1}}, timeout=0.05)


def test_a_plugin_that_does_not_end_or_fails_is_told():
    class Stubborn:
        wire = mcptest.Plugin.wire

        def run(self, wire):
            raise RuntimeError("my own fault")

    with pytest.raises(plughost.Crashed) as caught, drive(Stubborn()) as host:
        host.call("echo", 1)
    assert isinstance(caught.value.__cause__, RuntimeError)


def test_fixtures_come_with_the_package(plughost_drive, plughost_clock):
    host = plughost_drive(echo_plugin())
    assert host.call("echo", 5) == 5
    plughost_clock.advance(5)
    assert plughost_clock.time() == 1005.0
