"""vai plugins written with the SDK, over raw pipes."""

from __future__ import annotations

import json
import os
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.sdk import program
from tests.support.vai_wire import Talk, context

MANIFEST = """\
api_version = "vai.plugin.v1"
package_id = "acme/devkit"
version = "0.1.0"

[runtime]
protocol = "vai.rpc.v1"
"""

SOURCE = """
import asyncio, os, subprocess, sys, threading, time
from plughost_sdk import vai
from plughost_sdk.vai import session

session.FINISH = float(os.environ["FINISH"])
session.GRACE = 20
plugin = vai.Plugin()
kept = []
together = threading.Barrier(2)

@plugin.tool
def echo(input, context):
    return {**input, "invocation": context.invocation_id, "left": 50 < context.remaining() <= 60}

@plugin.tool
def add(a: int, b: int = 2) -> int:
    return a + b

@plugin.tool("say")
async def speak(text: str, context):
    context.progress(f"saying {text}", percent=50)
    await asyncio.sleep(0)
    context.event({"type": "custom", "of": text})
    return text

@plugin.tool
def meet(name: str):
    together.wait()  # both are here, or neither goes on
    return name

@plugin.tool
def whole():
    return vai.Result([{"type": "text", "text": "two"}, {"type": "text", "text": "texts"}], {"n": 2})

@plugin.tool
def wrong(how: str, context):
    if how == "raise":
        raise ValueError("no such thing")
    if how == "failed":
        raise vai.Failed("out of stock")
    if how == "again":
        raise vai.Retryable("come back later")
    if how == "exit":
        sys.exit(3)
    if how == "leak":
        raise OSError("cannot reach https://x/?key=" + context.secrets["token"])
    if how == "unjson":
        return {1, 2}
    if how == "large":
        return "x" * (17 << 20)
    return vai.Result("not found", is_error=True)

@plugin.tool
def shown(context):
    return [repr(context), repr(context.secrets), repr(context.gateway), str(vars(context))]

@plugin.tool
def prints():
    print("a stray line")
    subprocess.run(["echo", "of a child"])
    os.write(1, b"and of C\\n")
    return sys.stdin.read()

@plugin.tool
def waits(context):
    context.progress("waiting")
    context.wait(30)
    context.check()

@plugin.tool
def finishes(context):
    context.progress("begun")
    time.sleep(0.1)
    return "done"

@plugin.tool
def keeps(context):
    kept.append(context)

@plugin.tool
def late():
    try:
        kept[0].progress("too late")
    except RuntimeError as error:
        return str(error)

@plugin.tool
async def sleeps(context):
    context.progress("sleeping")
    try:
        await asyncio.sleep(30)
    finally:
        context.event({"type": "cleaned", "cancelled": context.cancelled, "reason": context.reason})

@plugin.hook(subscribes_to=["run.completed"])
def notify(event, context):
    if event["type"] == "bad":
        raise RuntimeError("cannot")
    if event["type"] == "busy":
        raise vai.Retryable("busy")
    context.event({"type": "seen", "delivery": context.delivery_id, "attempt": context.attempt})

@plugin.compactor
def window(compaction):
    return vai.Compaction(compaction["source"]["projection"]["blocks"], "all of it", 10, 5, kept=1)

@plugin.harness
async def triage(run, context):
    if run["mode"] == "none":
        return 5
    return vai.Outcome({"cursor": 12, "was": run.get("checkpoint")}, "done", ["a"])

plugin.run()
"""


@contextmanager
def talking(place: Path, finish: str):
    """`finish` is how long what runs at the end may go on."""
    (place / "vai-plugin.toml").write_text(MANIFEST)
    (place / "bin").mkdir()
    env = {**os.environ, "FINISH": finish}
    with Talk([program(place / "bin/plugin", SOURCE, "-IS")], env=env) as talk:
        assert talk.hello()["plugin"] == {"package_id": "acme/devkit", "version": "0.1.0"}
        yield talk


@pytest.fixture(scope="module")
def talk(tmp_path_factory):
    """For all tests that do not end it."""
    with talking(tmp_path_factory.mktemp("shared"), "20") as talk:
        yield talk


@pytest.fixture
def fresh(tmp_path, request):
    with talking(tmp_path, getattr(request, "param", "20")) as talk:
        yield talk


@pytest.mark.clause("VAI-31", "VAI-33", "VAI-35", "VAI-37", "VAI-50")
def test_tools_take_their_input_and_return_plain_values(fresh):
    said = fresh.tool("echo", {"x": "é"})
    assert said["structured_output"] == {"x": "é", "invocation": "invocation_1", "left": True}
    assert json.loads(said["content"][0]["text"]) == said["structured_output"]
    assert (said["is_error"], said["retryable"]) == (False, False)
    assert fresh.tool("add", {"a": 1})["structured_output"] == 3
    assert fresh.tool("add", {"a": 1, "b": 5})["content"] == [{"type": "text", "text": "6"}]
    assert fresh.tool("whole")["content"] == [
        {"type": "text", "text": "two"},
        {"type": "text", "text": "texts"},
    ]
    assert fresh.end() == 0


@pytest.mark.clause("VAI-34")
def test_events_come_before_the_answer(talk):
    number = talk.request("tool.invoke", "say", input={"text": "hi"})
    first, second = talk.hear(), talk.hear()
    assert (first["type"], first["request_id"]) == ("event", number)
    assert first["event"] == {"type": "progress", "message": "saying hi", "percent": 50}
    assert second["event"] == {"type": "custom", "of": "hi"}
    assert talk.answer(number)["result"]["structured_output"] == "hi"


def test_requests_run_side_by_side(talk):
    numbers = {talk.request("tool.invoke", "meet", input={"name": name}): name for name in ("ada", "bob")}
    for message in (talk.hear(), talk.hear()):
        assert message["body"]["result"]["structured_output"] == numbers.pop(message["id"])


@pytest.mark.clause("VAI-35", "VAI-38")
@pytest.mark.parametrize(
    ("how", "status", "words"),
    [
        ("raise", "failed", "ValueError: no such thing"),
        ("failed", "failed", "out of stock"),
        ("again", "retryable_failure", "come back later"),
        ("exit", "failed", "SystemExit: 3"),
        ("unjson", "failed", "something that JSON cannot represent"),
        ("large", "failed", "over the limit"),
        ("result", "failed", "not found"),
        (5, "failed", "input.how is not str: 5"),
        (None, "failed", "input.how is missing"),
    ],
)
def test_what_goes_wrong_in_a_tool_is_a_business_failure(talk, how, status, words):
    given = {} if how is None else {"how": how}
    said = talk.ask("tool.invoke", "wrong", input=given)
    assert (said["status"], said["result"]["is_error"]) == (status, True)
    assert said["result"]["retryable"] == (status == "retryable_failure")
    assert words in said["result"]["content"][0]["text"]
    assert talk.tool("add", {"a": 1})["structured_output"] == 3


@pytest.mark.clause("VAI-90")
def test_secrets_and_the_token_are_printed_nowhere(fresh):
    gateway = {"base_url": "http://x", "delegation_token": "vai_dlg_abc", "scopes": ["runs:read"]}
    told = {"secrets": {"token": "s3cr3t"}, "context": context(gateway=gateway)}
    shown = fresh.tool("shown", **told)["content"][0]["text"]
    assert "Secrets(token)" in shown
    assert "runs:read" in shown
    said = fresh.ask("tool.invoke", "wrong", input={"how": "leak"}, **told)
    assert said["result"]["content"][0]["text"] == "OSError: cannot reach https://x/?key=[secret]"
    fresh.end()
    assert "cannot reach" in fresh.stderr
    for hidden in ("s3cr3t", "vai_dlg_abc"):
        assert hidden not in shown + fresh.stderr


def test_stray_prints_end_up_in_the_log(fresh):
    assert fresh.tool("prints")["structured_output"] == ""
    assert fresh.end() == 0
    assert fresh.stderr == "a stray line\nof a child\nand of C\n"


@pytest.mark.clause("VAI-36")
@pytest.mark.parametrize("export", ["waits", "sleeps"])
def test_a_cancel_reaches_the_handler_and_the_call_is_answered_once(fresh, export):
    number = fresh.request("tool.invoke", export, input={})
    assert fresh.hear()["event"]["type"] == "progress"
    fresh.cancel("req_unknown")
    fresh.cancel(number)
    if export == "sleeps":
        event = {"type": "cleaned", "cancelled": True, "reason": "deadline_exceeded"}
        assert fresh.hear()["event"] == event
    assert fresh.answer(number) == {"status": "cancelled"}
    fresh.cancel(number)
    assert fresh.tool("add", {"a": 1})["structured_output"] == 3
    assert fresh.end() == 0


def test_what_is_said_after_the_answer_is_the_authors_mistake(talk):
    talk.tool("keeps")
    assert "send events before its answer" in talk.tool("late")["structured_output"]


def test_what_runs_at_the_end_may_finish(fresh):
    number = fresh.request("tool.invoke", "finishes", input={})
    assert fresh.hear()["type"] == "event"
    fresh.send({"type": "shutdown"})
    assert fresh.answer(number)["result"]["structured_output"] == "done"
    assert fresh.end(shutdown=False) == 0


@pytest.mark.parametrize("fresh", ["0.1"], indirect=True)
@pytest.mark.parametrize("shutdown", [True, False])
def test_what_runs_at_the_end_is_cancelled_after_a_while(fresh, shutdown):
    numbers = {fresh.request("tool.invoke", export, input={}) for export in ("waits", "sleeps")}
    assert {fresh.hear()["request_id"], fresh.hear()["request_id"]} == numbers
    if shutdown:
        fresh.send({"type": "shutdown"})
    else:
        fresh.hang_up()
    said = [fresh.hear() for _ in range(3)]
    answers = {one["id"]: one["body"]["status"] for one in said if one["type"] == "response"}
    assert answers == dict.fromkeys(numbers, "cancelled")
    assert fresh.end(shutdown=False) == 0


@pytest.mark.clause("VAI-53", "VAI-38")
def test_a_hook_acknowledges_fails_or_asks_for_another_attempt(talk):
    told = {"delivery_id": "del_1", "attempt": 2}
    number = talk.request("hook.handle", "notify", event={"type": "run.completed"}, **told)
    assert talk.hear()["event"] == {"type": "seen", "delivery": "del_1", "attempt": 2}
    assert talk.answer(number) == {"status": "ack"}
    failed = talk.ask("hook.handle", "notify", event={"type": "bad"}, **told)
    assert (failed["status"], failed["error"]["message"]) == ("failed", "RuntimeError: cannot")
    assert talk.ask("hook.handle", "notify", event={"type": "busy"}, **told)["status"] == "retryable_failure"


@pytest.mark.clause("VAI-48", "VAI-55", "VAI-58")
def test_compactors_and_harnesses_return_their_own_shapes(talk):
    blocks = [{"kind": "system", "content": []}]
    source = {"chain_id": "ch_1", "projection": {"transport": "inline", "blocks": blocks, "pinned_items": []}}
    said = talk.ask("compactor.compact", "window", compaction_id="cmp_1", source=source, target={}, policy={})
    assert said["result"] == {
        "seed_blocks": blocks,
        "summary": {"text": "all of it"},
        "diagnostics": {"input_tokens_estimate": 10, "output_tokens_estimate": 5, "kept": 1},
    }
    before = {"kind": "checkpoint", "data": {"cursor": 3}}
    said = talk.ask("harness.run", "triage", mode="resume", checkpoint=before)
    assert said["result"] == {
        "checkpoint": {"kind": "checkpoint", "data": {"cursor": 12, "was": before}},
        "summary": {"text": "done"},
        "artifacts": ["a"],
    }
    said = talk.ask("harness.run", "triage", mode="none")
    assert (said["status"], "vai.Outcome" in said["error"]["message"]) == ("failed", True)


@pytest.mark.clause("VAI-30", "VAI-35")
@pytest.mark.parametrize(
    ("message", "words"),
    [
        ({"op": "tool.invoke"}, "missing body"),
        ({"op": "tool.invoke", "body": []}, "missing body"),
        ({"op": "tool.invoke", "body": {"export_id": "add"}}, "missing context"),
        ({"op": "tool.sing", "body": {"export_id": "add", "context": {}}}, "unknown op 'tool.sing'"),
        ({"op": ["x"], "body": {"export_id": "add", "context": {}}}, "unknown op ['x']"),
        ({"protocol": "vai.rpc.v2", "op": "tool.invoke", "body": {}}, "not of vai.rpc.v1"),
        ({"type": "sing"}, "unknown type 'sing'"),
    ],
)
def test_what_is_no_request_is_a_protocol_error(talk, message, words):
    talk.send({"type": "request", "id": "req_x", **message})
    said = talk.hear()
    assert (said["type"], said["id"], said["ok"]) == ("response", "req_x", False)
    assert said["error"]["code"] == "protocol.invalid_frame"
    assert words in said["error"]["message"]


@pytest.mark.parametrize(
    ("op", "export"), [("tool.invoke", "nobody"), ("tool.invoke", "notify"), ("hook.handle", 5)]
)
def test_an_export_that_it_does_not_have_is_no_failure_of_the_protocol(talk, op, export):
    said = talk.ask(op, export)
    assert (said["status"], said["error"]["code"]) == ("failed", "export.unknown")


def test_what_is_no_message_is_dropped_and_told(fresh):
    for body in (
        b"",
        b"hello",
        b"[]",
        b"[" * 100_000,
        b'"\xff"',
        b'{"type":"request"}',
        b'{"protocol":"vai.rpc.v1"}',
    ):
        fresh.send_body(body)
    fresh.send({"type": "request", "op": "tool.invoke", "body": {}})
    assert fresh.tool("add", {"a": 1})["structured_output"] == 3
    assert fresh.end() == 0
    assert fresh.stderr.count("dropped a frame") == 8


def test_a_stream_that_cannot_be_read_ends_the_plugin(fresh):
    fresh.send_bytes(b"Content-Length: 99999999999\r\n\r\n")
    assert fresh.end(shutdown=False) == 1
    assert "over the limit" in fresh.stderr
