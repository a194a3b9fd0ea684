"""What handlers raise and return: the caller gets an error that teaches, and the plugin lives on."""

from __future__ import annotations

import base64

import pytest

import plughost
from plughost.testing import drive
from plughost_sdk import ainb, mcptest, rune
from tests.support.sdk import HANDSHAKE, INIT, ainb_folder, execute, lines, program, session


def refusal(host, method, params=None):
    with pytest.raises(plughost.CallFailed) as caught:
        host.call(method, params)
    return caught.value.error


UNFIT = [
    ({1, 2}, "Object of type set is not JSON serializable"),
    (float("nan"), "Out of range float values are not JSON compliant"),
    (b"bytes", "Object of type bytes is not JSON serializable"),
    ("\udcff", r"'utf-8' codec can't encode character '\udcff'"),
    ({(1, 2): 3}, "keys must be str"),
]


@pytest.mark.parametrize(("value", "told"), UNFIT)
def test_what_json_cannot_say_is_told_with_the_methods_name(value, told, tmp_path):
    plugin = mcptest.Plugin()
    plugin.method("unfit")(lambda: value)
    plugin.method("fit")(lambda: 1)
    with drive(plugin) as host:
        error = refusal(host, "unfit")
        assert error["code"] == -32603
        assert error["message"].startswith("unfit returned something that JSON cannot represent: ")
        assert told in error["message"]
        assert "lists, text, finite numbers" in error["message"]
        assert host.call("fit") == 1
    place = ainb_folder(tmp_path, "")
    made = ainb.Plugin(str(place / "manifest.toml"))
    made.method("unfit")(lambda: value)
    with drive(made, place) as host:
        assert told in refusal(host, "unfit")["message"]
        assert host.call("plugin/render", {"viewport": {"width": 1, "height": 1}})


RUNE = r"""
from plughost_sdk import rune
plugin = rune.Plugin("example", "1.0.0")
@plugin.tool
def unfit():
    return {1}
@plugin.tool
def huge():
    return "x" * (1 << 20)
@plugin.tool
def fits():
    return "x" * 1000000
@plugin.tool
def crash(input):
    return input["missing"]
@plugin.tool
def blank(input):
    raise rune.Error(" ")
@plugin.tool
def silent():
    raise ValueError()
@plugin.tool
def surrogate():
    raise OSError("no such file: \udcff")
@plugin.tool
def long():
    raise OSError("x" * 2000000)
plugin.run()
"""


def test_a_rune_tool_always_answers_and_exits_with_0(tmp_path):
    path = program(tmp_path / "plugin", RUNE)
    for tool, code, message in (
        ("unfit", "not_json", "unfit returned something that JSON cannot represent: Object of type set"),
        ("huge", "output_too_large", "the output is too large: 1048"),
        ("crash", "KeyError", "'missing'"),
        ("blank", "", "error"),
        ("silent", "ValueError", "ValueError"),
        ("surrogate", "OSError", r"no such file: \udcff"),
        ("long", "OSError", "xxx"),
        (
            "none",
            "unknown_tool",
            "no tool 'none'; there are: blank, crash, fits, huge, long, silent, surrogate, unfit",
        ),
    ):
        said = lines(path, HANDSHAKE, execute(tool, {}))
        answer = said.messages[1]
        assert (answer["status"], answer["error"]["code"], said.code) == ("error", code, 0)
        assert answer["error"]["message"].startswith(message)
        assert len(str(answer)) < 1 << 20
    assert lines(path, HANDSHAKE, execute("fits")).messages[1]["output"] == "x" * 1000000


@pytest.mark.clause("RUNE-25")
def test_a_rune_plugin_names_its_own_protocol_version(tmp_path):
    path = program(tmp_path / "plugin", RUNE)
    for asked in ("rterm.plugin.v1", "rterm.plugin.v2", ""):
        said = lines(path, {"type": "handshake", "protocol_version": asked})
        assert said.messages[0]["manifest"]["protocol_version"] == rune.PROTOCOL == "rterm.plugin.v1"
        assert said.code == 0
    for nonsense in ([], {"type": "request"}, {"request_id": 1, "tool_name": "x"}):
        said = lines(path, HANDSHAKE, nonsense)
        assert (len(said.messages), said.code) == (1, 1)
        assert "not a request of this protocol" in said.stderr


AINB = r"""
from plughost_sdk import ainb
plugin = ainb.Plugin()

@plugin.on_event
def first(topic):
    raise RuntimeError("of the first")
@plugin.on("t")
def second():
    raise ainb.Error(5, "of the second")
@plugin.on("t")
def third():
    plugin.host.log.info("the third is told all the same")
@plugin.screen
def draw(width):
    buffer = ainb.Buffer(100, 100)
    buffer.put(38, 11, "abc")
    buffer.put(38, 12, "def")
    return "text" if width == 1 else buffer
@plugin.cli("x")
def command(argv):
    if argv == ["--help"]:
        import argparse
        argparse.ArgumentParser("x").parse_args(argv)
    return {"number": 3, "list": [1], "none": None, "huge": 1 << 40, "true": True}[argv[0]]
@plugin.action("x")
def act(payload):
    return payload.decode()
@plugin.method("publish")
def publish(params):
    plugin.host.snapshot.publish("t", "text")
@plugin.method("level")
def level(params):
    plugin.host.log("loud", "x")
@plugin.method("fields")
def fields(params):
    plugin.host.log.info("x", what={1})
@plugin.method("pipe")
def pipe(params):
    raise BrokenPipeError("of something else than the host")
@plugin.method("large")
def large(params):
    return "x" * (17 << 20)
@plugin.on_shutdown
def end():
    raise RuntimeError("at the end")
plugin.run()
"""


@pytest.fixture(scope="module")
def said(tmp_path_factory):
    asked = iter(range(2, 100))

    def ask(method, **params):
        return {"id": next(asked), "method": method, "params": params}

    event = {"method": "plugin/handle_event", "params": {"topic": "t", "payload": ""}}
    words = ("number", "list", "none", "huge", "true", "wrong", "--help")
    return session(
        ainb_folder(tmp_path_factory.mktemp("ainb"), AINB),
        INIT,
        event,
        ask("plugin/render", viewport={"width": 1, "height": 1}),
        ask("plugin/render", viewport={"width": 40, "height": 12}),
        ask("host/action/invoke", action="x", payload=""),
        *(ask(method) for method in ("publish", "level", "fields", "pipe", "large")),
        *(ask("plugin/cli_dispatch", namespace="x", argv=[word]) for word in words),
        ask("plugin/shutdown"),
    )


def test_wrong_answers_of_an_ainb_plugin_are_told(said):
    answers = {message["id"]: message for message in said.messages if "id" in message}
    for number, told in {
        2: "TypeError: @plugin.screen returned str, not a Buffer: make one with ainb.Buffer(width, height)",
        4: "TypeError: a payload is bytes, not str: encode text with .encode()",
        5: "TypeError: a payload is bytes, not str",
        6: "ValueError: unknown log level 'loud'; known: trace, debug, info, warn, error",
        7: "fields sent something that JSON cannot represent: Object of type set",
        8: "BrokenPipeError: of something else than the host",
        9: "over the limit of 16777216: publish large data in chunks",
    }.items():
        assert answers[number]["error"]["code"] == -32603
        assert told in answers[number]["error"]["message"]
    frame = answers[3]["result"]["buffer"]
    assert (frame["width"], frame["height"]) == (40, 12)  # as the original host wants it
    assert [cell["symbol"] for _, cell in frame["cells"]] == ["a", "b"]


def test_what_one_handler_of_an_event_raises_does_not_concern_the_others(said):
    (line,) = [message for message in said.messages if message.get("method") == "host/log"]
    assert line["params"]["message"] == "the third is told all the same"
    assert "RuntimeError: of the first" in said.stderr
    assert "Error: of the second (5)" in said.stderr


def test_command_lines_end_like_programs(said):
    answers = {message["id"]: message["result"] for message in said.messages if message.get("id", 0) >= 10}
    codes = {number: answer["exit_code"] for number, answer in answers.items() if answer}
    assert codes == {10: 3, 11: 1, 12: 0, 13: 1, 14: 1, 15: 1, 16: 0}
    stderr = base64.b64decode(answers[11]["stderr"]).decode()
    assert stderr == "command returned [1]: a command line returns its exit code, or nothing\n"
    assert "KeyError: 'wrong'" in base64.b64decode(answers[15]["stderr"]).decode()
    assert base64.b64decode(answers[16]["stdout"]).startswith(b"usage: x")


def test_a_failing_farewell_is_a_farewell(said):
    assert (said.messages[-1], said.code) == ({"jsonrpc": "2.0", "id": 17, "result": {}}, 0)
    assert "RuntimeError: at the end" in said.stderr
