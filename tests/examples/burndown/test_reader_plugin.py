"""session-reader as a host sees it, over the wire in this process; its logs are nowhere on a disk."""

from __future__ import annotations

import base64
import json
import threading
import time

import msgspec
import pytest
from session_reader.plugin import make

import plughost
from plughost.contracts.ainb.chunks import Assembler, Batch
from plughost_sdk.ainb import Error
from tests.support import ROOT
from tests.support.burndown import HOME, MemoryFiles, answer, claude, codex, context, counters, log

FOLDER = ROOT / "plugins/session-reader"
USAGE = "sessions.usage_data"


def answers(files: MemoryFiles) -> dict:
    def read_dir(params):
        try:
            entries = files.read_dir(params["path"])
        except Exception as error:
            raise plughost.InvalidSpec(str(error)) from None
        return {"entries": [vars(entry) for entry in entries]}

    def read_file(params):
        offset = params.get("offset", 0)
        try:
            data = files.reading(params["path"], offset, params.get("length"))()
        except Error as error:
            raise plughost.InvalidSpec(error.message) from None
        return {"bytes": base64.b64encode(data).decode(), "offset": offset, "size": 0}

    return {"host/fs/read_dir": read_dir, "host/fs/read_file": read_file}


def eventually(host, condition) -> None:
    """The plugin's own thread works when it likes; what it says is taken meanwhile."""
    end = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < end, "it did not happen"
        host.drain(0.01)


def published(host) -> list[dict]:
    told = [params for method, params in host.notifications if method == "host/snapshot/publish"]
    return [
        msgspec.msgpack.decode(base64.b64decode(params["payload"]))
        for params in told
        if params["topic"] == USAGE
    ]


@pytest.fixture
def files():
    memory = MemoryFiles(a=log(answer(1), b'{"output_tokens": cut'))
    memory.write(codex("b"), log(context("gpt-5"), counters((100, 40, 20, 5))))
    return memory


@pytest.fixture
def host(plughost_drive, files):
    return plughost_drive(make(str(FOLDER / "manifest.toml"), HOME), FOLDER, answers=answers(files))


def test_it_publishes_by_itself_and_again_when_asked(host, files):
    eventually(host, lambda: published(host))
    (first, *_) = published(host)
    assert (first["version"], first["data"]["grand_total"]["call_count"]) == (3, 2)
    before = len(published(host))
    host.event("sessions.refresh_request", b"")
    eventually(host, lambda: len(published(host)) > before)
    assert published(host)[-1]["data"] == first["data"]


def test_it_follows_what_is_appended(host, files):
    eventually(host, lambda: published(host))
    files.write(claude("a"), files.content[claude("a")] + log(answer(2)))
    eventually(host, lambda: published(host)[-1]["data"]["grand_total"]["call_count"] == 3)


def test_its_action_is_one_chunk_without_calls(host):
    asked = {"action": "sessions", "payload": base64.b64encode(b'{"wait":30}').decode(), "timeout_ms": 0}
    told = host.call("host/action/invoke", asked)
    batch = Assembler().feed(base64.b64decode(told["payload"]))
    assert isinstance(batch, Batch)
    assert (batch.partial, batch.data.calls, batch.data.grand_total.call_count) == (False, [], 2)


def test_its_command_line_tells_what_was_left_out(host):
    ran = host.call("plugin/cli_dispatch", {"namespace": "sessions", "argv": ["--json"]})
    told = json.loads(base64.b64decode(ran["stdout"]))
    assert (ran["exit_code"], told["files"], told["skipped_lines"], told["unreadable"]) == (0, 2, 1, {})
    text = host.call("plugin/cli_dispatch", {"namespace": "sessions", "argv": []})
    assert b"1 lines left out" in base64.b64decode(text["stdout"])


def test_a_name_is_printed_without_anything_that_a_terminal_obeys(host, files):
    evil = claude("a\x1b[2J\r\nnot read: forged\u202e")
    files.write(evil, Error(-32602, f"read {evil}: Permission denied"))
    host.event("sessions.refresh_request", b'{"hard": true}')

    def unread() -> list[str]:
        text = host.call("plugin/cli_dispatch", {"namespace": "sessions", "argv": []})
        lines = base64.b64decode(text["stdout"]).decode().split("\n")
        return [line for line in lines if "not read" in line]

    eventually(host, unread)
    (line,) = unread()
    assert line.isprintable()
    assert line.endswith("Permission denied")


@pytest.mark.parametrize("payload", [b"", b"junk", b"\x80", b"[1]", b'{"hard": 1}', b"\xff\xff"])
def test_whatever_a_refresh_holds_it_is_one(host, payload):
    eventually(host, lambda: published(host))
    before = len(published(host))
    host.event("sessions.refresh_request", payload)
    eventually(host, lambda: len(published(host)) > before)


def test_its_thread_ends_with_the_host(plughost_drive, files):
    before = threading.enumerate()
    host = plughost_drive(make(str(FOLDER / "manifest.toml"), HOME), FOLDER, answers=answers(files))
    eventually(host, lambda: published(host))
    (reader,) = [each for each in threading.enumerate() if each.name == "reader" and each not in before]
    host.close()
    reader.join(10)
    assert not reader.is_alive()
