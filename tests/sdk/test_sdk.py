"""Plugins written with the Python SDK, under the real host."""

from __future__ import annotations

import asyncio
import base64
import json
import subprocess

import pytest

import plughost
from plughost import config
from plughost.contracts.ainb.contract import Ainb
from plughost.contracts.ainb.messages import Char, KeyEvent
from plughost.contracts.mcptest.contract import Mcptest
from plughost.contracts.rune.contract import Rune
from plughost_sdk import ainb
from plughost_sdk import mcptest as mcptest_sdk
from tests.support import ROOT, UNHURRIED, all_gone, until
from tests.support.sdk import ainb_folder, program, session
from tests.support.vectors import load, replay_plugin

MCPTEST = """
from plughost_sdk import mcptest
plugin = mcptest.Plugin()
@plugin.method
def echo(params):
    return params
@plugin.method("ping")
def answer():
    return "pong"
@plugin.method
async def later(params):
    import asyncio
    await asyncio.sleep(0)
    return [params, "later"]
@plugin.method
def no(params):
    raise mcptest.Error(7, "no", {"why": params})
@plugin.method
def crash(params):
    return params["missing"]
@plugin.method
def maybe(params=None):
    return ["given", params]
@plugin.method
def noise(params):
    import ctypes, os, subprocess
    print("a stray print")
    os.write(1, b"written to descriptor 1\\n")
    subprocess.run(["echo", "a child's output"])
    ctypes.CDLL(None).puts(b"from C")
    ctypes.CDLL(None).fflush(None)
    return "clean"
@plugin.method
def nan(params):
    return float("nan")
plugin.run()
"""

RUNE = """
from plughost_sdk import rune
plugin = rune.Plugin("example.echo", "1.0.0", capabilities=["tool.execute"])
@plugin.tool
def echo(input, context):
    return rune.Output(input, {"context": context})
@plugin.tool
def fail(input):
    raise rune.Error("you asked for it", "asked_for")
plugin.run()
"""


def mcptest(tmp_path, mark, source=MCPTEST):
    path = program(tmp_path / f"{mark}.py", source)
    return plughost.PluginSpec(contract="mcptest", name="made", command=[str(path)])


@pytest.mark.clause("MCPT-29")
async def test_an_mcptest_plugin(host, tmp_path, mark):
    plugin = await host.add(mcptest(tmp_path, mark))
    assert await plugin.call("echo", {"text": "é"}) == {"text": "é"}
    assert await plugin.call("echo", None) is None
    assert await plugin.call("ping") == "pong"
    assert await plugin.call("ping", {"ignored": 1}) == "pong"
    assert await plugin.call("later", 1) == [1, "later"]
    assert await plugin.call("maybe") == ["given", None]
    assert await plugin.call("maybe", 5) == ["given", 5]
    for method, params, code in (
        ("no", 1, 7),
        ("nothing of the kind", 1, -32601),
        ("crash", {}, -32603),
        ("nan", 1, -32603),
    ):
        response = await Mcptest(plugin).request(method, params)
        assert response.error["code"] == code
    assert (await Mcptest(plugin).request("echo")).error["code"] == -32602
    assert "echo" in (await Mcptest(plugin).request("x")).error["message"]
    assert await plugin.call("ping") == "pong"
    with host.events() as told:
        await plugin.stop()
        exits = [
            event for event in [await told.get() for _ in range(len(told))] if hasattr(event, "exit_status")
        ]
    assert [event.exit_status for event in exits] == [0]


@pytest.mark.clause("MCPT-29")
async def test_nothing_but_answers_gets_onto_the_wire(host, tmp_path, mark):
    plugin = await host.add(mcptest(tmp_path, mark))
    assert await plugin.call("noise", 1) == "clean"
    assert await plugin.call("ping") == "pong"
    lines = await until(
        lambda: len(got := [line.message for line in host.service("logs").recent("made")]) >= 4 and got
    )
    assert set(lines) == {"a stray print", "written to descriptor 1", "a child's output", "from C"}


async def test_a_rune_plugin(host, tmp_path, mark):
    path = program(tmp_path / f"{mark}.py", RUNE)
    spec = plughost.PluginSpec(
        contract="rune",
        name="example.echo",
        command=[str(path)],
        grants=["tool.execute"],
        options=UNHURRIED,
    )
    plugin = await host.add(spec)
    result = await Rune(plugin).execute("echo", {"text": "hi"}, context={"mode_id": "m"})
    assert (result.output, result.metadata) == ({"text": "hi"}, {"context": {"mode_id": "m"}})
    with pytest.raises(plughost.CallFailed) as caught:
        await plugin.call("fail", {})
    assert caught.value.error == {"code": "asked_for", "message": "you asked for it"}


@pytest.mark.clause("MCPT-29")
@pytest.mark.parametrize(("contract", "source"), [("mcptest", MCPTEST), ("rune", RUNE)])
def test_it_replays_the_golden_vectors(tmp_path, contract, source):
    vectors = load(contract)
    path = program(tmp_path / "plugin", source)
    spec = plughost.PluginSpec(contract=contract, name="example.echo", command=[str(path)], cwd=str(tmp_path))
    told = list(vectors.for_a_plugin("echo"))
    assert len(told) > 5
    for conversation in told:
        replay_plugin(conversation, vectors.spec.name, spec)


AINB = """
import threading
from plughost_sdk import ainb
plugin = ainb.Plugin()
seen = []

@plugin.on_init
def start():
    plugin.host.log.info("starting", granted=list(plugin.granted))
    plugin.host.snapshot.subscribe("more")
    plugin.host.snapshot.publish("made.started", b"yes")

@plugin.on("t")
def event(payload):
    # A call of the host in the middle of an event.
    value, version = plugin.host.snapshot.get("t")
    seen.append(["t", payload.decode(), value.decode(), version])

@plugin.on("more")
async def more(payload):
    import asyncio
    await asyncio.sleep(0)
    seen.append(["more", payload.decode(), plugin.host.snapshot.get("nothing")[1]])

@plugin.on_key
def key(key, screen_id):
    seen.append(["key", key.ch, screen_id])

@plugin.screen
def draw(width, height):
    buffer = ainb.Buffer(width, height)
    buffer.put(0, 0, f"{width}x{height}", fg=(255, 0, 0), style=ainb.BOLD | ainb.REVERSED)
    buffer.put(width - 1, height - 1, "outside")
    buffer.put(0, height, "below")
    return buffer

@plugin.cli("made")
def command(argv):
    import sys
    print("args:", *argv)
    print("problem", file=sys.stderr)
    if "--exit" in argv:
        sys.exit("it ended")
    if "--crash" in argv:
        raise RuntimeError("crashed")
    return 3

@plugin.method("seen")
def tell(params):
    return seen

@plugin.method("from a thread")
def threaded(params):
    found = []
    thread = threading.Thread(target=lambda: found.append(plugin.host.snapshot.get("t")[1]))
    thread.start()
    while thread.is_alive():  # the plugin's own thread reads while it asks
        plugin.host.snapshot.get("x")
    return found

@plugin.method("read")
def read(params):
    try:
        return [entry.name for entry in plugin.host.fs.read_dir(params)]
    except ainb.Error as error:
        return [error.code, error.message]

@plugin.action("made")
def act(payload):
    return payload[::-1]

plugin.run()
"""


ECHO = """
from binascii import b2a_base64
from plughost_sdk import ainb
plugin = ainb.Plugin()
events = {}
last = ["no key yet"]

@plugin.on_init
def start():
    plugin.host.log.info("ready")

@plugin.screen
def draw(width, height):
    buffer = ainb.Buffer(width, height)
    buffer.put(0, 0, f"{width}x{height}")
    buffer.put(0, 1, last[0])
    return buffer

@plugin.on_key
def key(key):
    last[0] = " ".join(filter(None, (key.code, key.ch, str(key.n or ""))))

@plugin.on_event
def event(topic, payload):
    events[topic] = payload

@plugin.cli("echo")
def command(argv):
    if argv[:1] == ["--fail"]:
        return int(argv[1]) % 256
    print(*argv)

@plugin.method("echo")
def echo(params):
    return params

@plugin.method("last_event")
def last_event(params):
    if not isinstance(params, dict) or "topic" not in params:
        raise ainb.Error(-32602, "which topic?")
    payload = events.get(params["topic"])
    return {"payload": None if payload is None else b2a_base64(payload, newline=False).decode()}

@plugin.method("subscribe")
def subscribe(params):
    plugin.host.snapshot.subscribe(params["topic"])
    return {}

plugin.run()
"""


def test_it_replays_the_golden_vectors_of_ainb(tmp_path):
    import shutil

    place = tmp_path / "echo-ainb"
    place.mkdir()
    shutil.copy(ROOT / "plugins/echo-ainb/manifest.toml", place)
    program(place / "echo-ainb", ECHO)
    vectors = load("ainb")
    told = list(vectors.for_a_plugin("echo"))
    assert len(told) > 50
    for conversation in told:
        replay_plugin(conversation, vectors.spec.name, config.load_folder(place))


@pytest.fixture
async def made(host, tmp_path, mark):
    place = ainb_folder(
        tmp_path / mark, AINB, provides={"cli_namespaces": ["made"]}, subscribes={"snapshots": ["t"]}
    )
    return await host.add(place)


async def test_an_ainb_plugin_starts_and_talks_to_its_host(host, made):
    await made.call("seen", {})
    store = host.service("snapshots")
    assert store.latest("made.started").payload == b"yes"
    assert sorted(store.subscribers("more")) == ["made"]
    (line,) = host.service("logs").recent("made")
    assert (line.message, line.fields) == ("starting", {"granted": ["read_sessions", "event_bus"]})
    assert made.inspect()["lints"] != [None]


async def test_handlers_may_call_the_host_and_keep_their_order(host, made):
    await made.call("seen", {})
    store = host.service("snapshots")
    for n in range(50):
        store.put("t", str(n).encode())
        store.put("more", str(n).encode())
    Ainb(made).key("main", KeyEvent(Char("k")))
    seen = await made.call("seen", {})
    assert [entry[1] for entry in seen if entry[0] == "t"] == [str(n) for n in range(50)]
    assert [entry[1:] for entry in seen if entry[0] == "more"] == [[str(n), 0] for n in range(50)]
    assert ["key", "k", "main"] in seen


async def test_other_threads_may_call_the_host(host, made):
    host.service("snapshots").put("t", b"1")
    (version,) = await made.call("from a thread", {})
    assert version == host.service("snapshots").latest("t").version


async def test_screens_command_lines_actions_and_refusals(host, made, tmp_path, mark):
    view = Ainb(made)
    frame = (await view.render(8, 2, deadline=60)).buffer
    assert "".join(cell.symbol for at, cell in frame.cells if at.y == 0) == "8x2"
    assert [(at.x, at.y, cell.symbol) for at, cell in frame.cells if at.y == 1] == [(7, 1, "o")]
    assert frame.cells[0][1].modifier == 1 | 16 | 64
    assert await view.cli("made", ["a", "é"]) == ("args: a é\n".encode(), b"problem\n", 3)
    assert (await view.cli("made", ["--exit"]))[1:] == (b"problem\nit ended\n", 1)
    crashed = await view.cli("made", ["--crash"])
    assert (crashed.exit_code, b"RuntimeError: crashed" in crashed.stderr) == (1, True)
    assert (await view.cli("other", [])) == (b"", b"plugin does not handle namespace `other`\n", 2)
    assert await made.call("read", "/etc") == [-32001, "capability denied: fs"]
    answer = await made.call(
        "host/action/invoke", {"action": "made", "payload": base64.b64encode(b"abc").decode()}
    )
    assert base64.b64decode(answer["payload"]) == b"cba"


async def test_errors_have_the_contracts_codes(host, made):
    for method, params, code in (
        ("nothing", {}, -32601),
        ("plugin/render", {}, -32602),
        ("plugin/render", {"viewport": {"width": "8", "height": 1}}, -32602),
        ("plugin/cli_dispatch", {"namespace": 1, "argv": []}, -32602),
        ("host/action/invoke", {"action": "other", "payload": ""}, -32602),
        ("host/action/invoke", {"action": "made", "payload": "!"}, -32602),
    ):
        with pytest.raises(plughost.CallFailed) as caught:
            await made.call(method, params)
        assert caught.value.error["code"] == code, (method, params)
    made.notify("plugin/unheard_of")
    made.notify("plugin/handle_event", {"topic": 1})
    made.notify("plugin/handle_key", {"key": {}})
    assert await made.call("seen", {}) == []


PLAIN = "from plughost_sdk import ainb\nplugin = ainb.Plugin()\nplugin.run()\n"


@pytest.mark.parametrize("shutdown", [{"id": 9}, {}])
def test_it_satisfies_the_original_hosts_rules(tmp_path, shutdown):
    """An unknown method before init; a shutdown as a request or a notification; exit 0 without an end of stdin."""
    place = ainb_folder(tmp_path, PLAIN)
    init = {"manifest_path": "/in-process/manifest.toml", "granted_capabilities": [], "abi_version": 2}
    said, _, code = session(
        place,
        {"id": 1, "method": "cts/definitely_not_a_method", "params": {}},
        {"id": 2, "method": "plugin/init", "params": init},
        {"id": 3, "method": "plugin/render", "params": {"viewport": {"width": 4, "height": 2}}},
        {"method": "plugin/shutdown", "params": {}, **shutdown},
        {"id": 10, "method": "plugin/render", "params": {}},
    )
    assert code == 0
    assert said[0]["error"] == {"code": -32601, "message": "method not found: cts/definitely_not_a_method"}
    assert {"name": "made", "version": "1.0.0", "abi_version": 2}.items() <= said[1]["result"].items()
    assert said[1]["result"]["manifest"]["plugin"]["name"] == "made"
    assert said[2]["result"] == {"buffer": {"width": 4, "height": 2, "cells": []}}
    assert said[3:] == ([{"jsonrpc": "2.0", "id": 9, "result": {}}] if shutdown else [])


@pytest.mark.clause("AINB-18")
@pytest.mark.parametrize("wrong", ["abi", "manifest", "no manifest"])
def test_init_is_refused_with_32003_when_abi_or_manifest_do_not_fit(tmp_path, wrong):
    place = ainb_folder(tmp_path, PLAIN)
    if wrong == "manifest":
        (place / "manifest.toml").write_text("[plugin")
    elif wrong == "no manifest":
        (place / "manifest.toml").unlink()
    init = {"manifest_path": "", "granted_capabilities": [], "abi_version": 3 if wrong == "abi" else 2}
    (answer,), _, code = session(place, {"id": 1, "method": "plugin/init", "params": init})
    assert (answer["error"]["code"], code) == (-32003, 0)
    if wrong != "abi":
        assert answer["error"]["message"].startswith("manifest TOML invalid: ")


def test_a_broken_stream_ends_it_with_a_word(tmp_path):
    place = ainb_folder(tmp_path, PLAIN)
    for stream in (
        b"nonsense\r\n\r\n",
        b"Content-Length: 5\r\n\r\n{}",
        b"Content-Length: 99999999\r\n\r\n",
        b"x" * 9000,
    ):
        ran = subprocess.run([place / "made"], input=stream, capture_output=True, timeout=20)
        assert (ran.returncode, b"cannot be read" in ran.stderr) == (1, True), stream


def test_the_host_cannot_be_called_before_the_plugin_runs(tmp_path):
    with pytest.raises(RuntimeError, match="from a handler"):
        _ = ainb.Plugin().host
    plugin = mcptest_sdk.Plugin()
    plugin.method("a")(lambda: 1)
    with pytest.raises(ValueError, match="two functions for @plugin.method"):
        plugin.method("a")(lambda: 2)


async def test_a_plugin_whose_host_dies_ends(tmp_path, mark):
    path = program(tmp_path / f"{mark}.py", MCPTEST)
    process = subprocess.Popen([path], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    process.stdin.write(b'{"method":"ping","id":1}\n')
    process.stdin.flush()
    assert json.loads(await asyncio.to_thread(process.stdout.readline)) == {"id": 1, "result": "pong"}
    process.stdout.close()
    process.stdin.write(b'{"method":"ping","id":2}\n')
    process.stdin.close()
    assert process.wait(10) == 0
    await all_gone(mark)
