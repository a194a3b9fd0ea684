"""The conversation without any I/O: both sides against each other, and against whatever else may come."""

from __future__ import annotations

import json

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

import plughost
from plughost.contracts.vai import manifest
from plughost.contracts.vai.errors import IdentityMismatch, InvalidFrame
from plughost.contracts.vai.frames import MAX_BODY, MAX_HEADER
from plughost.contracts.vai.messages import Cancel, VaiAbout, VaiRequest, VaiShutdown
from plughost.contracts.vai.plugin_side import VaiPluginSide
from plughost.contracts.vai.session import VaiSession
from plughost.wire.framing import FrameError
from plughost.wire.messages import NOTHING, Progress, Response, Unusable
from tests.unit.contracts.vai.test_manifest import SEED

TOLD = manifest.read(SEED)
HOST = VaiAbout("vai-runner", "0.1.0")


def frame(**members):
    return json.dumps({"protocol": "vai.rpc.v1", **members}).encode()


HELLO = frame(type="hello", role="plugin", plugin={"package_id": "acme/devkit", "version": "0.1.0"})


def ready():
    session = VaiSession(TOLD, HOST)
    session.on_start(None)
    assert session.receive(HELLO) is None
    assert session.ready
    return session


@pytest.mark.clause("VAI-31", "VAI-33", "VAI-36", "VAI-37")
def test_the_host_s_frames_are_those_of_the_contract_s_text():
    session = ready()
    assert json.loads(session.on_start(None)[0]) == {
        "protocol": "vai.rpc.v1", "type": "hello", "role": "host", "host": {"name": "vai-runner", "version": "0.1.0"},
    }  # fmt: skip
    assert json.loads(session.encode_call(123, "tool.invoke", {}, None)) == {
        "protocol": "vai.rpc.v1", "type": "request", "id": "req_123", "op": "tool.invoke", "body": {},
    }  # fmt: skip
    assert json.loads(session.encode_cancel(123, "deadline_exceeded")) == {
        "protocol": "vai.rpc.v1", "type": "cancel", "request_id": "req_123", "reason": "deadline_exceeded",
    }  # fmt: skip
    assert [json.loads(each) for each in session.shutdown_messages()] == [
        {"protocol": "vai.rpc.v1", "type": "shutdown"}
    ]


@pytest.mark.clause("VAI-34", "VAI-35")
def test_the_plugin_s_frames_are_understood():
    session = ready()
    event = session.receive(
        frame(type="event", request_id="req_123", event={"type": "progress", "message": "working"})
    )
    assert isinstance(event, Progress)
    assert (event.id, json.loads(bytes(event.payload))) == (123, {"type": "progress", "message": "working"})
    answer = session.receive(frame(type="response", id="req_123", ok=True, body={"status": "ack"}))
    assert (answer.id, json.loads(bytes(answer.result))) == (123, {"status": "ack"})
    error = {"code": "protocol.invalid_frame", "message": "missing body"}
    answer = session.receive(frame(type="response", id="req_123", ok=False, error=error))
    assert session.to_exception("tool.invoke", answer).error == error


@pytest.mark.clause("VAI-30", "VAI-35")
@pytest.mark.parametrize(
    ("members", "why"),
    [
        ({}, "a response without `ok`"),
        ({"ok": "true", "body": {}}, "a response without `ok`"),
        ({"ok": True}, "a response that is ok, without a body"),
        ({"ok": True, "body": None}, "a response that is ok, without a body"),
        ({"ok": True, "body": []}, "a response that is ok, without a body"),
        ({"ok": False}, "a response that is not ok, without an error of code and message"),
        (
            {"ok": False, "error": {"code": 7}},
            "a response that is not ok, without an error of code and message",
        ),
    ],
)
def test_a_response_of_another_shape_fails_its_own_call_alone(members, why):
    session = ready()
    answer = session.receive(frame(type="response", id="req_7", **members))
    assert answer.id == 7
    assert session.to_exception("tool.invoke", answer).error == {
        "code": "protocol.invalid_frame",
        "message": why,
    }


@pytest.mark.clause("VAI-34")
@pytest.mark.parametrize(
    "members",
    [
        {"type": "event", "event": {}},
        {"type": "event", "request_id": "7", "event": {}},
        {"type": "event", "request_id": "req_7", "event": "progress"},
        {"type": "event", "request_id": "req_7"},
        {"type": "event", "request_id": "req_07", "event": {}},
        {"type": "event", "request_id": "req_٧", "event": {}},
        {"type": "event", "request_id": "req_" + "9" * 30, "event": {}},
        {"type": "response", "id": "inv_1", "ok": True, "body": {}},
        {"type": "request", "id": "req_1", "op": "tool.invoke", "body": {}},
        {"type": "hello", "role": "plugin", "plugin": {}},
        {"type": "metrics"},
    ],
)  # fmt: skip
def test_what_belongs_to_no_call_is_noise(members):
    assert isinstance(ready().receive(frame(**members)), Unusable)


@pytest.mark.clause("VAI-30")
@pytest.mark.parametrize(
    "body",
    [
        b"", b"nonsense", b"[]", b"{}", b'{"type":"event"}', b'{"protocol":"vai.rpc.v1"}', b'{"protocol":"vai.rpc.v1","type":""}',
        b'{"protocol":"vai.rpc.v1","type":7}', b'{"protocol":"VAI.RPC.V1","type":"event"}', b"[" * 100_000,
        b'{"protocol":"vai.rpc.v1","type":"event","request_id":"req_1","event":{"a":"\xff"}}',
    ],
)  # fmt: skip
def test_a_wrong_protocol_or_a_missing_type_is_an_invalid_frame(body):
    for side in (ready(), VaiPluginSide("acme/devkit", "0.1.0")):
        with pytest.raises(InvalidFrame) as caught:
            side.receive(body)
        assert caught.value.code == "protocol.invalid_frame"


@pytest.mark.clause("VAI-31", "VAI-32")
@pytest.mark.parametrize(
    ("members", "kind"),
    [
        ({"type": "hello", "role": "plugin", "plugin": {"package_id": "acme/devkit", "version": "0.1.1"}}, IdentityMismatch),
        ({"type": "hello", "role": "plugin", "plugin": {"package_id": "acme/devkit ", "version": "0.1.0"}}, IdentityMismatch),
        ({"type": "hello", "role": "plugin", "plugin": {"package_id": "acme/devkit"}}, plughost.HandshakeFailed),
        ({"type": "hello", "role": "plugin"}, plughost.HandshakeFailed),
        ({"type": "hello", "role": "host", "host": {}}, plughost.HandshakeFailed),
        ({"type": "event", "request_id": "req_1", "event": {}}, plughost.HandshakeFailed),
        ({"type": "response", "id": "req_1", "ok": False, "error": {"code": "a", "message": "b"}}, plughost.HandshakeFailed),
    ],
)  # fmt: skip
def test_a_wrong_hello_ends_it(members, kind):
    session = VaiSession(TOLD, HOST)
    session.on_start(None)
    with pytest.raises(kind) as caught:
        session.receive(frame(**members))
    assert type(caught.value) is kind
    assert not session.ready


@pytest.mark.clause("VAI-33")
def test_a_plugin_refuses_what_is_no_request():
    side = VaiPluginSide("acme/devkit", "0.1.0")
    told, answers = side.receive(
        frame(type="hello", role="host", host={"name": "vai-runner", "version": "0.1.0"})
    )
    assert (told, answers[0]) == (None, msgspec.json.encode(msgspec.json.decode(HELLO)))
    for members in ({"op": "tool.invoke"}, {"op": "tool.explode", "body": {}}, {"body": {}}):
        told, answers = side.receive(frame(type="request", id="req_1", **members))
        assert (told, json.loads(answers[0])["error"]["code"]) == (None, "protocol.invalid_frame")


def test_a_reason_is_told_in_part_when_it_is_long():
    assert len(json.loads(ready().encode_cancel(1, "x" * 10_000))["reason"]) == 200


@settings(deadline=None)
@given(st.lists(st.binary(max_size=60)), st.integers(1, 7))
def test_whatever_bytes_come_are_frames_or_errors_and_never_anything_else(chunks, size):
    session = ready()
    data = b"".join(chunks)
    framing = session.framing()
    for start in range(0, len(data), size):
        for each in framing.feed(data[start : start + size]):
            assert isinstance(each, FrameError | bytes | bytearray)
            with pytest.raises(InvalidFrame):
                session.on_bad_frame(each) if isinstance(each, FrameError) else session.receive(each)


@pytest.mark.clause("VAI-30")
def test_the_limits_are_those_of_the_contract():
    assert (MAX_HEADER, MAX_BODY) == (8 << 10, 16 << 20)
    framing = ready().framing()
    whole = b"Content-Length: 5\r\n\r\nhello"
    assert framing.feed(whole) == [b"hello"]
    (error,) = framing.feed(b"Content-Length: %d\r\n\r\n" % (MAX_BODY + 1))
    assert isinstance(error, FrameError)


class Talk(RuleBasedStateMachine):
    """A host and a plugin that keep to the contract understand each other, in any order of what they may do."""

    def __init__(self):
        super().__init__()
        self.host = VaiSession(TOLD, HOST)
        self.plugin = VaiPluginSide("acme/devkit", "0.1.0")
        self.number = 0
        self.asked: dict[int, str] = {}
        self.answered: set[int] = set()
        self.said: dict[int, list[int]] = {}
        self.heard: dict[int, list[int]] = {}

    @initialize()
    def hello(self):
        (sent,) = self.host.on_start(None)
        told, answers = self.plugin.receive(sent)
        assert told is None
        assert self.host.receive(answers[0]) is None

    @rule(op=st.sampled_from(["tool.invoke", "hook.handle", "compactor.compact", "harness.run"]))
    def ask(self, op):
        self.number += 1
        told, answers = self.plugin.receive(self.host.encode_call(self.number, op, {"n": self.number}, None))
        assert (answers, isinstance(told, VaiRequest), told.op) == ([], True, op)
        self.asked[self.number] = told.id
        self.said[self.number], self.heard[self.number] = [], []

    @precondition(lambda self: self.asked)
    @rule(data=st.data(), content=st.integers())
    def say(self, data, content):
        number = data.draw(st.sampled_from(sorted(self.asked)))
        event = self.plugin.event(self.asked[number], {"type": "progress", "content": content})
        assert (event is None) == (number in self.answered)
        if event is not None:
            self.said[number].append(content)
            heard = self.host.receive(event)
            assert isinstance(heard, Progress)
            self.heard[heard.id].append(json.loads(bytes(heard.payload))["content"])

    @precondition(lambda self: self.asked)
    @rule(data=st.data())
    def cancel(self, data):
        number = data.draw(st.sampled_from(sorted(self.asked)))
        told, answers = self.plugin.receive(self.host.encode_cancel(number, "why not"))
        assert answers == []
        assert (
            told is None if number in self.answered else isinstance(told, Cancel) and told.reason == "why not"
        )

    @precondition(lambda self: self.asked)
    @rule(data=st.data(), ok=st.booleans())
    def answer(self, data, ok):
        number = data.draw(st.sampled_from(sorted(self.asked)))
        id = self.asked[number]
        said = self.plugin.respond(id, {"status": "succeeded"}) if ok else self.plugin.refuse(id, "a", "b")
        assert (said is None) == (number in self.answered)
        if said is not None:
            answer = self.host.receive(said)
            assert isinstance(answer, Response)
            assert (answer.id, answer.error is NOTHING) == (number, ok)
            self.answered.add(number)

    @invariant()
    def every_call_heard_what_was_said_of_it(self):
        assert self.said == self.heard

    def teardown(self):
        if self.host.ready:
            told, _ = self.plugin.receive(self.host.shutdown_messages()[0])
            assert isinstance(told, VaiShutdown)
            assert self.plugin.ended


Talk.TestCase.settings = settings(max_examples=40, stateful_step_count=25, deadline=None)
TestTalk = pytest.mark.clause("VAI-31", "VAI-34", "VAI-35")(Talk.TestCase)
