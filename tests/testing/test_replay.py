"""Recorded traffic played again: as the plugin to a real host, as the host to a real plugin."""

from __future__ import annotations

import itertools
import json
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

import plughost
from plughost.engine.io.tap import Origin
from plughost.testing import Recorder, Traffic, play_host
from plughost.testing.player import Different, Player
from tests.support import ROOT, UNHURRIED, all_gone, puppet, unhurried
from tests.support.ainb import ask
from tests.support.ainb import folder as ainb_folder
from tests.support.ainb import spec as ainb_spec

ECHO = ROOT / "plugins/echo-mcptest"
LINES = Origin("p", "mcptest", "Lines")


async def recorded(spec, talk) -> Traffic:
    recorder = Recorder()
    async with plughost.Host(tap=recorder) as host:
        await talk(await host.add(spec))
    return recorder.conversations[0]


def fake(traffic, path, name, mark, contract="mcptest", **more):
    """The recorded plugin, as a program."""
    traffic.save(path)
    command = [sys.executable, "-m", "plughost.cli", "replay", str(path), "--name", mark]
    env = {"PYTHONPATH": str(ROOT / "src")}
    return plughost.PluginSpec(contract=contract, name=name, command=command, env=env, **more)


async def some_calls(plugin):
    assert await plugin.call("echo", {"n": 1}) == {"n": 1}
    with pytest.raises(plughost.CallFailed):
        await plugin.call("error", {"code": 7, "message": "no"})


async def test_a_recorded_plugin_under_a_real_host(tmp_path, mark):
    traffic = await recorded(puppet(mark), some_calls)
    async with plughost.Host() as host:
        await some_calls(await host.add(fake(traffic, tmp_path / "t", "again", mark)))
        other = await host.add(fake(traffic, tmp_path / "t", "other", mark))
        with pytest.raises(plughost.Crashed) as caught:
            await other.call("echo", {"n": 2})
    assert "its frame 1 differs: params.n was 1 and is now 2" in caught.value.stderr_tail
    await all_gone(mark)


async def test_ids_that_the_host_draws_anew_are_answered_as_they_are_now(tmp_path, mark):
    spec = unhurried(ROOT / "plugins/echo-rune")

    async def one(plugin):
        assert await plugin.call("echo", {"text": "hi"}) == {"text": "hi"}

    traffic = await recorded(spec, one)
    async with plughost.Host() as host:
        again = fake(traffic, tmp_path / "t", spec.name, mark, "rune", grants=spec.grants, options=UNHURRIED)
        await one(await host.add(again))
    await all_gone(mark)


async def test_a_recorded_host_tells_a_plugin_the_same_again(tmp_path, mark):
    place = ainb_folder(tmp_path, subscribes={"snapshots": ["t"]})
    spec = ainb_spec(place)

    async def talk(plugin):
        assert await ask(plugin, "host/snapshot/get", {"topic": "t"})
        await plugin.call("echo", {"a": [1, None, "é"]})

    traffic = await recorded(spec, talk)
    assert b"Content-Length" in traffic.bytes("out")
    assert await play_host(traffic, spec, patience=60) is None
    other = Traffic(traffic.origin)
    for passage in traffic.passages:
        data = passage.data.encode("latin-1")
        other.add(passage.way, data.replace(b'"1.2.3"', b'"1.2.4"') if passage.way == "in" else data)
    assert 'was "1.2.4" and is now "1.2.3"' in (await play_host(other, spec, patience=60) or "")


def one_call() -> Traffic:
    traffic = Traffic(LINES)
    traffic.add("out", b'{"method":"echo","id":1,"params":5}\n')
    traffic.add("in", b'{"id":1,"result":5}\n')
    return traffic


def shell(script, mark):
    return plughost.PluginSpec(contract="mcptest", name="p", command=["/bin/sh", "-c", script, mark])


SAME = """echo '{"id": 1, "result": 5}'"""


@pytest.mark.parametrize(
    ("script", "problem"),
    [
        ("exit 3", 'the plugin exited with code 3 before it sent: {"id":1,"result":5}'),
        ("""echo '{"id": 1, "result": 6}'""", "its frame 1 differs: result was 5 and is now 6"),
        ("echo noise", 'its frame 1 was {"id":1,"result":5} and is now noise'),
        (f"{SAME}; echo {{}}", "after the end of the recording, it sent {}"),
    ],
)
async def test_what_a_plugin_says_else_than_then_is_told(mark, script, problem):
    assert problem in (await play_host(one_call(), shell(script, mark), patience=60) or "")
    await all_gone(mark)


async def test_the_same_is_no_difference():
    assert await play_host(one_call(), ECHO, patience=60) is None


@pytest.mark.parametrize(
    ("script", "patience", "problem"),
    [
        ("exec sleep 60", 0.1, "the plugin did not send within 0.1 s"),
        (f"{SAME}; exec sleep 60", 5, "did not end within 5 s"),
    ],
)
async def test_a_plugin_that_hangs_is_ended(mark, script, patience, problem):
    assert problem in (await play_host(one_call(), shell(script, mark), patience=patience) or "")
    await all_gone(mark)


async def test_a_plugin_that_is_not_there_is_no_difference(tmp_path):
    traffic = Traffic(LINES)
    with pytest.raises(plughost.LaunchFailed):
        await play_host(
            traffic, plughost.PluginSpec(contract="mcptest", name="p", command=[str(tmp_path / "no")])
        )


async def test_redacted_values_may_be_any(mark):
    async def talk(plugin):
        await plugin.call("echo", {"token": "hunter2", "n": 1, "why": "no hunter2!"})

    traffic = (await recorded(puppet(mark), talk)).redacted(["token"])
    player = Player(traffic, "in")
    said = player.hear(b'{"method":"echo","id":1,"params":{"token":["other"],"n":1,"why":"no other!"}}\n')
    assert json.loads(said) == {"id": 1, "result": {"token": "***", "n": 1, "why": "no ***!"}}
    with pytest.raises(Different, match="params.why was"):
        Player(traffic, "in").hear(
            b'{"method":"echo","id":1,"params":{"token":1,"n":1,"why":"yes other!"}}\n'
        )
    with pytest.raises(Different, match="params.n was 1 and is now true"):
        Player(traffic, "in").hear(
            b'{"method":"echo","id":1,"params":{"token":"x","n":true,"why":"no x!"}}\n'
        )


# The player itself


def conversation() -> Traffic:
    traffic = Traffic(LINES)
    traffic.add("out", b'{"method":"a","id":1}\n{"method":"b"')
    traffic.add("in", b'{"id":1,"result":1}\n{"method":"ask","id":1}\nnoise\n')
    traffic.add("out", b',"id":2}\n{"id":1,"result":9}\n')
    traffic.add("in", b'{"id":2,"resu')
    return traffic


@given(st.lists(st.integers(0, 90), max_size=6))
def test_it_does_not_matter_how_the_other_side_cuts_and_spaces(cuts):
    stream = b'{ "id" : 1, "method":"a"}\r\n{"method":"b","id":2}\n{"id":1,"result":9}\n'
    bounds = sorted({0, len(stream), *(cut for cut in cuts if cut < len(stream))})
    player = Player(conversation(), "in")
    said = player.hear(b"")
    for start, stop in itertools.pairwise(bounds):
        said += player.hear(stream[start:stop])
    assert said == conversation().bytes("in")
    assert player.expected is None


def test_the_plugin_may_name_its_requests_as_it_likes():
    player = Player(conversation(), "out")
    assert player.hear(b"") == b'{"method":"a","id":1}\n'
    assert player.hear(b'{"id":1,"result":1}\n{"method":"ask","id":"mine"}\n') == b""
    assert player.hear(b"noise\n") == b'{"method":"b","id":2}\n{"id":"mine","result":9}\n'


def test_bytes_that_made_no_frames_are_said_again_as_they_were():
    traffic = Traffic(Origin("p", "ainb", "ContentLength"))
    traffic.add("in", b"Content-Length: x\r\n")
    traffic.add("in", b"whatever")
    assert Player(traffic, "in").hear(b"") == traffic.bytes("in")
    with pytest.raises(Different, match="are not a frame"):
        Player(traffic, "out").hear(b"Content-Length: 2\r\n\r\n{}")


def test_a_blank_line_is_waited_for_like_any_other():
    traffic = Traffic(LINES)
    traffic.add("in", b"\n")
    player = Player(traffic, "out")
    assert player.expected == ""
    player.hear(b"\n")
    assert player.expected is None


def test_a_frame_that_was_hidden_whole_may_be_any():
    traffic = Traffic(LINES)
    traffic.add("in", b"secret noise\n")
    player = Player(traffic.redacted(["token"]), "out")
    player.hear(b"other noise\n")
    assert player.expected is None


def test_a_framing_that_is_not_known_cannot_be_played():
    with pytest.raises(plughost.InvalidSpec, match="Netstrings"):
        Player(Traffic(Origin("p", "other", "Netstrings")), "in")
