"""Both pipes full: a plugin that has much to say still hears what it is told, so neither side waits for ever.

rune is not here: its one request is read before its one answer is written.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import threading

from plughost.services.files.service import FileService
from tests.support import until
from tests.support.sdk import INIT, ainb_folder, frames, program, unframed

PATIENCE = 20
"""Seconds, also on a busy machine."""
COUNT = 200
LONG = "x" * 8000
"""Of these there are ten pipes' worth."""


def unheard(command, stream: bytes) -> bytes:
    """All that it says to a host that says everything before it reads anything."""
    child = subprocess.Popen([command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
    watchdog = threading.Timer(PATIENCE, child.kill)
    watchdog.start()
    try:
        taken = child.stdin.write(stream)
        assert taken == len(stream), "it does not read while nobody reads what it says"
        return child.communicate()[0]
    finally:
        watchdog.cancel()
        watchdog.join()
        child.kill()
        child.communicate()


def in_lines(*messages: dict) -> bytes:
    return b"".join(json.dumps(message).encode() + b"\n" for message in messages)


MCPTEST = """
from plughost_sdk import mcptest
plugin = mcptest.Plugin()
plugin.method("echo")(lambda params: params)
plugin.run()
"""
AINB = """
from plughost_sdk import ainb
plugin = ainb.Plugin()
plugin.method("echo")(lambda params: params)
plugin.run()
"""
KAGED = """
from plughost_sdk import kaged
plugin = kaged.Plugin("made", "1.0.0")
plugin.method("echo")(lambda params: params)
plugin.run()
"""
VAI = """
from plughost_sdk import vai
plugin = vai.Plugin()
@plugin.tool
def echo(): ...
plugin.run()
"""


def test_mcptest(tmp_path):
    asked = [{"id": n, "method": "echo", "params": LONG} for n in range(COUNT)]
    said = unheard(program(tmp_path / "plugin", MCPTEST), in_lines(*asked))
    assert [json.loads(line) for line in said.splitlines()] == [
        {"id": n, "result": LONG} for n in range(COUNT)
    ]


def test_ainb(tmp_path):
    asked = [{"id": n, "method": "echo", "params": LONG} for n in range(2, COUNT)]
    said = unheard(ainb_folder(tmp_path, AINB) / "made", frames(INIT, *asked))
    assert [message["id"] for message in unframed(said)] == [*range(1, COUNT)]


def test_kaged(tmp_path):
    asked = [{"jsonrpc": "2.0", "id": n, "method": "made.echo", "params": [LONG]} for n in range(COUNT)]
    said = unheard(program(tmp_path / "plugin", KAGED), in_lines(*asked))
    assert [json.loads(line)["result"] for line in said.splitlines()] == [[LONG]] * COUNT


def test_vai(tmp_path):
    """Its calls have threads of their own; what is refused is refused by the thread that reads."""
    (tmp_path / "vai-plugin.toml").write_text('package_id = "a/b"\nversion = "1.0.0"\n')
    wrong = [{"protocol": "vai.rpc.v1", "type": "request", "id": f"{LONG}{n}"} for n in range(COUNT)]
    said = unheard(program(tmp_path / "plugin", VAI), frames(*wrong))
    assert [message["id"] for message in unframed(said)] == [message["id"] for message in wrong]


AHEAD = """
from plughost_sdk import ainb
plugin = ainb.Plugin()
@plugin.method("ahead")
def ahead(params):
    taking = [plugin.host.fs.reading(params["path"]) for _ in range(4)]
    for number in range(20):
        plugin.host.snapshot.publish("t", b"%d " % number + bytes(100_000))
    return [len(take()) for take in taking]
plugin.run()
"""


async def test_under_a_real_host_much_can_be_published_before_an_answer_is_taken(host, tmp_path, mark):
    (tmp_path / "large").write_bytes(bytes(2 << 20))
    host.provide("fs", FileService({"read_sessions": tmp_path}))
    plugin = await host.add(ainb_folder(tmp_path / mark, AHEAD))
    heard: list[bytes] = []
    host.service("snapshots").listen("t", heard.append)
    async with asyncio.timeout(PATIENCE):
        assert await plugin.call("ahead", {"path": f"{tmp_path}/large"}) == [2 << 20] * 4
    await until(lambda: heard and heard[-1].startswith(b"19 "))
