"""The wire belongs to the SDK: nothing but messages gets onto it, whoever writes to stdout."""

from __future__ import annotations

import io
import itertools
import json
import os
import signal
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plughost_sdk.host import to_bytes, to_text
from plughost_sdk.message import LARGE, decode
from plughost_sdk.wire import CHUNK, BrokenWire, ContentLength
from tests.support.sdk import HANDSHAKE, INIT, ainb_folder, execute, lines, program, session

NOISE = """
import sys
def noise():
    import ctypes, os, subprocess
    print("a stray print")
    os.write(1, b"descriptor 1\\n")
    subprocess.run(["echo", "a child"])
    ctypes.CDLL(None).puts(b"from C")
    ctypes.CDLL(None).fflush(None)
    sys.__stdout__.buffer.write(b"beneath the text\\n")
    sys.__stdout__.flush()
"""
NOISES = {"a stray print", "descriptor 1", "a child", "from C", "beneath the text"}

MCPTEST = """
from plughost_sdk import mcptest
plugin = mcptest.Plugin()
@plugin.method
def loud(params):
    noise()
    return params
plugin.run()
"""
RUNE = """
from plughost_sdk import rune
plugin = rune.Plugin("example.loud", "1.0.0")
@plugin.tool
def loud(input):
    noise()
    return input
plugin.run()
"""
AINB = """
from plughost_sdk import ainb
plugin = ainb.Plugin()
@plugin.on_key
def key():
    noise()
@plugin.method
async def loud(params):
    noise()
    return params
plugin.run()
"""
LOUD = {"id": 7, "method": "loud", "params": [1]}


def test_noise_of_an_mcptest_plugin_is_its_log(tmp_path):
    said = lines(program(tmp_path / "loud", NOISE + MCPTEST), LOUD, LOUD)
    assert said.messages == [{"id": 7, "result": [1]}] * 2
    assert (sorted(said.stderr.splitlines()), said.code) == (sorted([*NOISES] * 2), 0)


def test_noise_of_a_rune_plugin_is_its_log(tmp_path):
    said = lines(program(tmp_path / "loud", NOISE + RUNE), HANDSHAKE, execute("loud", [1]))
    assert [message["type"] for message in said.messages] == ["handshake", "response"]
    assert said.messages[1]["output"] == [1]
    assert (set(said.stderr.splitlines()), said.code) == (NOISES, 0)


def test_noise_of_an_ainb_plugin_is_its_log(tmp_path):
    key = {"screen_id": "main", "key": {"code": {"type": "enter"}}, "generation": 1}
    place = ainb_folder(tmp_path, NOISE + AINB)
    said = session(place, INIT, {"method": "plugin/handle_key", "params": key}, LOUD)
    assert [message["id"] for message in said.messages] == [1, 7]
    assert said.messages[1]["result"] == [1]
    assert (sorted(said.stderr.splitlines()), said.code) == (sorted([*NOISES] * 2), 0)


CLAIMED = """
import os
print("printed before, and still in the buffer")
import plughost_sdk
plughost_sdk.claim()
print("printed by an import")
os.write(1, b"written by an import\\n")
plughost_sdk.claim()
"""


def test_a_wire_claimed_in_the_first_line_is_safe_from_imports_that_print(tmp_path):
    said = lines(program(tmp_path / "loud", NOISE + CLAIMED + MCPTEST), LOUD)
    assert said.messages == [{"id": 7, "result": [1]}]
    before = {"printed before, and still in the buffer", "printed by an import", "written by an import"}
    assert set(said.stderr.splitlines()) == NOISES | before


def test_what_was_flushed_before_the_claim_is_on_the_wire_for_good(tmp_path):
    source = 'print("flushed", flush=True)\nimport plughost_sdk\nplughost_sdk.claim()\n'
    path = program(tmp_path / "loud", NOISE + source + MCPTEST)
    ran = subprocess.run([path], input=json.dumps(LOUD).encode(), capture_output=True, timeout=20)
    assert ran.stdout == b'flushed\n{"id":7,"result":[1]}\n'


def test_children_neither_read_nor_hold_the_wire(tmp_path):
    source = """
    import subprocess
    from plughost_sdk import mcptest
    plugin = mcptest.Plugin()
    @plugin.method
    def start():
        subprocess.run(["cat"], timeout=10)  # its stdin has ended, though the host's has not
        return subprocess.Popen(["sleep", "60"]).pid
    plugin.run()
    """
    path = program(tmp_path / "parent", source)
    with subprocess.Popen([path], stdin=-1, stdout=-1, stderr=subprocess.DEVNULL) as process:
        process.stdin.write(b'{"method":"start","id":1}\n')
        process.stdin.flush()
        child = json.loads(process.stdout.readline())["result"]
        try:
            process.stdin.close()
            assert process.stdout.read() == b""
            assert process.wait(10) == 0
            os.kill(child, 0)
        finally:
            os.kill(child, signal.SIGKILL)


@pytest.mark.parametrize("contract", ["mcptest", "ainb"])
def test_a_plugin_starts_without_what_it_does_not_need(tmp_path, contract):
    """That is why it starts about as fast as a bare script; how fast, `python -m benchmarks --only sdk` says."""
    source = f"""
    from plughost_sdk import {contract}
    plugin = {contract}.Plugin()
    @plugin.method
    def loaded(params):
        return sorted(sys.modules)
    plugin.run()
    """
    asked = {"id": 2, "method": "loaded", "params": {}}
    if contract == "mcptest":
        (answer,) = lines(program(tmp_path / "plugin", source), asked).messages
    else:
        _, answer = session(ainb_folder(tmp_path, source), INIT, asked).messages
    heavy = {
        "argparse", "asyncio", "dataclasses", "inspect", "logging", "msgspec", "pathlib", "subprocess", "tempfile",
        "threading", "tomllib", "traceback", "typing",
    }  # fmt: skip
    assert "json" in answer["result"]
    assert not heavy & set(answer["result"])


# Large frames


@given(
    st.lists(st.integers(0, 3 * CHUNK), max_size=4),
    st.lists(st.integers(1, 2 * CHUNK), min_size=1, max_size=8),
)
def test_frames_are_the_same_however_they_come_in(lengths, sizes):
    sent = [bytes([length % 251]) * length for length in lengths]
    stream = io.BytesIO(b"".join(b"Content-Length: %d\r\n\r\n%b" % (len(body), body) for body in sent))
    size = itertools.cycle(sizes)

    def receive_into(view):
        piece = stream.read(min(len(view), next(size)))
        view[: len(piece)] = piece
        return len(piece)

    wire = ContentLength(lambda most: stream.read(min(most, next(size))), len, receive_into)
    assert [wire.read() for _ in sent] == sent
    assert wire.read() is None


def test_a_large_frame_that_is_cut_says_where():
    stream = io.BytesIO(b"Content-Length: 200000\r\n\r\n" + bytes(150_000))

    def receive_into(view):
        piece = stream.read(len(view))
        view[: len(piece)] = piece
        return len(piece)

    with pytest.raises(BrokenWire, match="ended after 150000 of 200000 bytes"):
        ContentLength(stream.read, len, receive_into).read()


@pytest.mark.parametrize("size", [10, LARGE + 1])
@pytest.mark.parametrize("with_msgspec", [True, False])
def test_messages_are_read_alike_with_and_without_msgspec(monkeypatch, size, with_msgspec):
    if not with_msgspec:
        monkeypatch.delitem(sys.modules, "msgspec")
    message = {"text": "é" * size, "numbers": [1, 1.5, None, True, 2**70]}
    assert decode(json.dumps(message).encode()) == message
    assert decode(bytearray(json.dumps(message, ensure_ascii=False).encode())) == message
    with pytest.raises(ValueError):
        decode(b"[" + b" " * size)
    data = bytes(range(256)) * (size // 256 + 1)
    assert to_bytes(to_text(data)) == data
    for wrong in (to_text(data)[:-1] + "*", to_text(data) + "=", " " + to_text(data)):
        with pytest.raises(ValueError):
            to_bytes(wrong)
