"""How a scaffold behaves on the wire, whatever its language: bytes in, bytes out, exit code."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from plughost import config
from plughost.contracts.registry import get_contract as contract_named
from plughost.scaffold import writer

PATIENCE = 20
LARGE = 2**53 - 1  # any larger is no number that a double can hold


class Ran:
    """What the plugin made of its input: all at once, and then the end of it."""

    def __init__(self, folder, data, messages):
        spec = config.load_folder(folder)
        env = dict(contract_named(spec.contract).resolve(spec).env)
        process = subprocess.run(
            spec.command, cwd=spec.cwd, env=env, input=data, capture_output=True, timeout=PATIENCE
        )
        self.exit_status = process.returncode
        self.stderr = process.stderr.decode()
        self.messages = messages(process.stdout)

    def failed_aloud(self, messages=0):
        assert len(self.messages) == messages
        assert self.exit_status == 1
        assert self.stderr


def lines(data):
    assert data == b"" or data.endswith(b"\n")
    return [json.loads(line) for line in data.splitlines()]


def frames(data):
    found = []
    while data:
        header, blank, rest = data.partition(b"\r\n\r\n")
        assert blank
        size = int(header.removeprefix(b"Content-Length: "))
        found.append(json.loads(rest[:size]))
        data = rest[size:]
    return found


def frame(body):
    body = body if isinstance(body, bytes) else json.dumps(body).encode()
    return b"Content-Length: %d\r\n\r\n%b" % (len(body), body)


def in_every_language(contract):
    """The test gets the `folder` of a plugin, written, built and otherwise as it is."""
    languages = writer.languages(contract)
    cases = [(contract, language) for language in languages]
    return pytest.mark.parametrize("folder", cases, ids=languages, indirect=True)


@pytest.fixture
def folder(request, made):
    return Path(made(*request.param).folder)


@in_every_language("mcptest")
def test_mcptest_answers_each_line_and_ends_with_its_stdin(folder):
    ada, hello = {"name": "Ada"}, {"greeting": "Hello, Ada!"}
    said = [
        (b'{"id":1,"method":"greet","params":{"name":"Ada"}}', 1, hello),
        (b' {"params":{"name":"A\\u0064a"},"x":{"id":2},"method":"greet","id":"a"}\r', "a", hello),
        (b'{"id":%d,"method":"greet","params":{"name":"Ada"}}' % LARGE, LARGE, hello),
        (b'{"id":0,"method":"sing"}', 0, -32601),
        (b'{"id":0,"method":["greet"]}', 0, -32601),
        (b'{"id":0}', 0, -32601),
        (b'{"id":2,"method":"greet"}', 2, -32602),
        (b'{"id":2,"method":"greet","params":null}', 2, -32602),
        (b'{"id":2,"method":"greet","params":{"name":["Ada"]}}', 2, -32602),
        (b"this is no JSON", None, -32700),
        (b'{"id":3,"method":', None, -32700),
        (b'{"id":3,"method":"\xff"}', None, -32700),
        (b"", None, -32700),
        (b"[" * 100_000, None, -32700),
        (b"[1]", None, -32600),
        (b"null", None, -32600),
        (json.dumps({"id": 4, "method": "greet", "params": ada}).encode(), 4, hello),
        (b'{"id":5,"method":"greet","params":{"name":"%b"}}' % (b"x" * 300_000), 5, {"greeting": f"Hello, {'x' * 300_000}!"}),
    ]  # fmt: skip
    ran = Ran(folder, b"\n".join(line for line, _, _ in said), lines)  # the last line lacks its end
    got = [(answer["id"], answer.get("result") or answer["error"]["code"]) for answer in ran.messages]
    assert got == [(number, answer) for _, number, answer in said]
    assert ran.exit_status == 0


@in_every_language("mcptest")
def test_mcptest_that_nobody_calls_ends_well(folder):
    ran = Ran(folder, b"", lines)
    assert (ran.messages, ran.stderr, ran.exit_status) == ([], "", 0)


HANDSHAKE = b'{"type":"handshake","protocol_version":"rterm.plugin.v1"}\n'


def request(tool, given):
    told = {"type": "request", "request_id": "plugin_req_1", "tool_name": tool, "context": {}, "input": given}
    return json.dumps(told).encode() + b"\r\n"


@in_every_language("rune")
def test_rune_shakes_hands_answers_and_ends(folder):
    ran = Ran(folder, HANDSHAKE + request("greet", {"name": "Ada"}) + b"whatever follows\n", lines)
    opening, answer = ran.messages
    assert opening == {
        "type": "handshake",
        "manifest": {
            "plugin_id": folder.name,
            "plugin_version": "0.1.0",
            "protocol_version": "rterm.plugin.v1",
            "exposed_tools": ["greet"],
            "capabilities": ["tool.execute"],
        },
    }
    assert answer == {
        "type": "response",
        "request_id": "plugin_req_1",
        "status": "ok",
        "output": {"greeting": "Hello, Ada!"},
    }
    assert ran.exit_status == 0


@in_every_language("rune")
def test_rune_refuses_in_its_own_words(folder):
    for tool, given, code in (("sing", {}, "unknown_tool"), ("greet", {"name": None}, "invalid_input")):
        ran = Ran(folder, HANDSHAKE + request(tool, given), lines)
        answer = ran.messages[1]
        assert (answer["status"], answer["error"]["code"], ran.exit_status) == ("error", code, 0)
        assert answer["error"]["message"]


@in_every_language("rune")
def test_rune_ends_well_when_the_host_goes_early(folder):
    assert (Ran(folder, b"", lines).exit_status, Ran(folder, HANDSHAKE, lines).exit_status) == (0, 0)


@in_every_language("rune")
def test_rune_fails_aloud_at_what_is_no_message(folder):
    Ran(folder, HANDSHAKE + b"hello\n", lines).failed_aloud(messages=1)


def line(method, number=None, params=None):
    told = {"jsonrpc": "2.0", **({} if number is None else {"id": number}), "method": method}
    return json.dumps({**told, **({} if params is None else {"params": params})}).encode()


INITIALIZE = line(
    "initialize", 1, {"daemon_version": "1", "api_version": 1, "plugin_name": "x", "projects": []}
)


@in_every_language("kaged")
def test_kaged_says_who_it_is_answers_in_order_and_ends_with_its_stdin(folder):
    greet, well = f"{folder.name}.greet", {"status": "ok"}
    ada, hello = {"name": "Ada"}, {"greeting": "Hello, Ada!"}
    about = {
        "name": folder.name,
        "version": "0.1.0",
        "api_version": 1,
        "methods": [greet],
        "notifications": [],
        "capabilities_used": [],
    }
    said = [
        (INITIALIZE, 1, about),
        (line(greet, 2, ada), 2, hello),
        (line(greet, LARGE, {**ada, "_context": {"operator_id": "x"}}) + b"\r", LARGE, hello),
        (line("health.check", 3, {}), 3, well),
        (line("ping", 4, {}), 4, well),
        (line(f"{folder.name}.sing", 5, {}), 5, -32601),
        (line("kaged.hook.on_session_start", 6, {}), 6, -32601),
        (line(greet, 7), 7, -32602),
        (b'{"jsonrpc":"2.0","id":8,"method":"%b","params":null}' % greet.encode(), 8, -32602),
        (line(greet, 9, {"name": ["Ada"]}), 9, -32602),
        (line(greet, 10, ["Ada"]), 10, -32602),
        (line("shutdown", 11, {}), 11, well),
        (line(greet, 12, {"name": "x" * 4_000_000}), 12, -32603),
        (line(greet, 13, {"name": "é" * 300_000}), 13, 300_008),
    ]
    silent = [
        line("initialized", None, {}), line("unheard.of", None, {}), line(greet, None, ada), b"", b"  \r", b"hello",
        b"null", b"[]", b"{}", b'{"id":7}', b"[" * 100_000, b'{"jsonrpc":"2.0","id":7,"result":{}}', b'"\xff"',
        b'{"jsonrpc":"2.0","id":null,"method":"ping"}',
    ]  # fmt: skip
    told = [asked for asked, _, _ in said]
    data = b"\n".join([told[0], *silent, *told[1:]])  # the last line lacks its end
    ran = Ran(folder, data, lines)
    got = [(answer["id"], answer.get("result") or answer["error"]["code"]) for answer in ran.messages]
    number, large = got.pop()
    got.append((number, len(large["greeting"])))  # which nobody wants to read
    assert got == [(number, answer) for _, number, answer in said]
    assert {answer["jsonrpc"] for answer in ran.messages} == {"2.0"}
    assert ran.exit_status == 0


@in_every_language("kaged")
def test_kaged_that_nobody_calls_ends_well(folder):
    ran = Ran(folder, b"", lines)
    assert (ran.messages, ran.stderr, ran.exit_status) == ([], "", 0)


def init(number=1, abi=2, **more):
    params = {"manifest_path": "/nowhere", "granted_capabilities": [], "abi_version": abi, **more}
    return {"jsonrpc": "2.0", "id": number, "method": "plugin/init", "params": params}


def asked(number, method, params):
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": params}


@in_every_language("ainb")
def test_ainb_says_who_it_is(folder):
    ran = Ran(folder, frame(init("first", new_member=1)), frames)
    [answer] = ran.messages
    assert answer["id"] == "first"
    result = answer["result"]
    assert (result["name"], result["version"], result["abi_version"]) == (folder.name, "0.1.0", 2)
    assert result["manifest"]["provides"] == {"screens": [folder.name], "cli_namespaces": [folder.name]}
    assert ran.exit_status == 0


@in_every_language("ainb")
def test_ainb_refuses_what_it_does_not_know_and_goes_on(folder):
    viewport = {"width": 5, "height": 1}
    said = [
        (init(1, abi=3), 1, -32003),
        (init(2, abi="2"), 2, -32602),
        (init(3, granted_capabilities=None), 3, -32602),
        (init("4"), "4", None),
        (asked(LARGE, "sing", {}), LARGE, -32601),
        (asked(0, "plugin/render", {}), 0, -32602),
        (asked(0, "plugin/render", [1]), 0, -32602),
        (asked(0, "plugin/render", {"viewport": {"width": 65536, "height": 1}}), 0, -32602),
        (asked(0, "plugin/render", {"viewport": {"width": -1, "height": 1}}), 0, -32602),
        (asked(0, "plugin/cli_dispatch", {"namespace": "x", "argv": [1]}), 0, -32602),
        (asked(0, "plugin/cli_dispatch", {"argv": []}), 0, -32602),
        (asked(5, "plugin/render", {"viewport": {"width": 65535, "height": 65535}}), 5, None),
        (asked(6, "plugin/render", {"viewport": viewport}), 6, None),
    ]
    silent = [
        b"hello", b"", b"null", b"[]", b"{}", b"[" * 100_000, b'{"jsonrpc":"2.0","id":7,"result":{}}', b'"\xff"',
        {"jsonrpc": "2.0", "method": "plugin/unheard_of"},
        {"jsonrpc": "2.0", "id": None, "method": "plugin/render", "params": {"viewport": viewport}},
        {"jsonrpc": "2.0", "method": "plugin/handle_key", "params": {"key": {}}},
        {"jsonrpc": "2.0", "method": "plugin/handle_event", "params": {"topic": "t", "payload": "aGk="}},
    ]  # fmt: skip
    data = b"".join(frame(message) for message, _, _ in said[:-1]) + b"".join(map(frame, silent))
    last = frame(said[-1][0]).replace(b"Content-Length: ", b"content-length :\t +0")
    ran = Ran(folder, data + last, frames)
    got = [(answer["id"], answer.get("error", {}).get("code")) for answer in ran.messages]
    assert got == [(number, code) for _, number, code in said]
    assert ran.exit_status == 0
    buffer = ran.messages[-1]["result"]["buffer"]
    assert [cell["symbol"] for _, cell in buffer["cells"]] == list("Hello")


@in_every_language("ainb")
def test_ainb_paints_wide_characters_in_two_cells_and_marks_in_none(folder):
    key = {
        "screen_id": "x",
        "key": {"code": {"type": "char", "ch": "a漢e\u0301한b"}, "modifiers": []},
        "generation": 1,
    }
    size = {"screen_id": "x", "viewport": {"width": 40, "height": 5}, "generation": 1}
    told = {"jsonrpc": "2.0", "method": "plugin/handle_key", "params": key}
    data = frame(init()) + frame(told) + frame(asked(2, "plugin/render", size))
    (_, drawn) = Ran(folder, data, frames).messages
    row = {cell["x"]: shown["symbol"] for cell, shown in drawn["result"]["buffer"]["cells"] if cell["y"] == 1}
    assert "".join(row[x] for x in range(10)) == "Last key: "
    assert [row[x] for x in range(10, 17)] == ["a", "漢", "", "e\u0301", "한", "", "b"]


@in_every_language("ainb")
def test_ainb_ends_after_shutdown_though_its_stdin_is_open(folder):
    spec = config.load_folder(folder)
    with subprocess.Popen(spec.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        process.stdin.write(frame(init()) + frame(asked(2, "plugin/shutdown", {})))
        process.stdin.flush()
        assert process.wait(PATIENCE) == 0
        assert frames(process.stdout.read())[1] == {"jsonrpc": "2.0", "id": 2, "result": {}}


@in_every_language("ainb")
@pytest.mark.parametrize(
    "data",
    [b"hello\r\n\r\n", b"Content-Length: 99\r\n\r\n{}", b"Content-Length: 99999999\r\n\r\n", b"Content-Le"],
)
def test_ainb_fails_aloud_when_the_stream_is_broken(folder, data):
    Ran(folder, data, frames).failed_aloud()
