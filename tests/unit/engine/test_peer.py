"""The peer alone: a channel in memory instead of a process, and a clock that the test moves."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from plughost import CallFailed, Crashed, Overloaded, PluginError
from plughost.contract import JsonRpc, LifecyclePolicy, Lines
from plughost.engine.caller import Caller
from plughost.engine.peer import Peer
from plughost.engine.pending_call import PendingCall
from plughost.testing import VirtualClock
from plughost.wire.messages import Notification, Reply, Request, Response


class MemoryChannel:
    """A channel that keeps what it is given."""

    def __init__(self) -> None:
        self.buffered = 0
        self.read_size = 1
        self.reads_in_callbacks = False
        self.calls: list[tuple[int, str]] = []
        self.written: list[dict[str, Any]] = []
        self.aborted: list[int] = []

    def send(self, number: int, method: str, frame: bytes, *, alone: bool, priority: bool) -> None:
        self.calls.append((number, method))

    def abort(self, number: int) -> None:
        self.aborted.append(number)

    def write(self, frame: bytes, *, urgent: bool = False) -> None:
        self.written.append(msgspec.json.decode(frame))

    def __getattr__(self, name: str) -> Any:
        return lambda: None  # cork, uncork, pause, resume …


class Instance:
    """The peer's owner: keeps what it is told."""

    def __init__(self) -> None:
        self.dropped: list[str] = []
        self.fatal: list[PluginError] = []
        self.stopping: list[float | None] = []
        self.notifications: list[str] = []

    def on_dropped(self, what: str, head: bytes) -> None:
        self.dropped.append(what)

    def on_fatal(self, error: PluginError) -> None:
        self.fatal.append(error)

    def on_stopping(self, until: float | None) -> None:
        self.stopping.append(until)

    def on_notification(self, notification: Notification) -> None:
        self.notifications.append(notification.method)

    def on_call_failed(self, pending: PendingCall, error: PluginError) -> None:
        pending.fail(error)

    def on_timeout(self, pending: PendingCall) -> None:
        pending.fail(PluginError("too late"))

    def __getattr__(self, name: str) -> Any:
        return lambda *arguments: None


class Polite(JsonRpc):
    """A session with a cancel message, which answers pings itself."""

    def __init__(self, *, answers_cancelled_calls: bool) -> None:
        self.answers_cancelled_calls = answers_cancelled_calls
        self.heard: list[str] = []

    def framing(self) -> Lines:
        return Lines(1 << 16)

    def encode_cancel(self, number: int, reason: str) -> bytes:
        return self.encode_notification("cancelled", {"id": number, "reason": reason})

    def on_request(self, request: Request) -> Request | Reply:
        return Reply(self.encode_response(request.id, {})) if request.method == "ping" else request

    def on_notification(self, notification: Notification) -> Notification | None:
        self.heard.append(notification.method)
        return None if notification.method == "list_changed" else notification


class Talk:
    def __init__(self, *, answers_cancelled_calls: bool = False, **policy: Any) -> None:
        self.session = Polite(answers_cancelled_calls=answers_cancelled_calls)
        self.channel, self.instance, self.clock = MemoryChannel(), Instance(), VirtualClock()
        loop = asyncio.get_running_loop()
        owner: Any = self.instance
        self.peer = Peer(self.session, LifecyclePolicy(**policy), owner, self.clock, loop, None)
        channel: Any = self.channel
        self.peer.attach(channel, Caller("p", 1, self.peer.deliver, self.instance.dropped.append))
        self.peer.open()

    def call(self, method: str) -> PendingCall:
        return self.peer.submit(method, {}, None, None)

    def says(self, **message: Any) -> None:
        self.peer.feed(msgspec.json.encode({"jsonrpc": "2.0", **message}) + b"\n")


async def test_a_frame_is_answered_with_a_frame_by_the_session():
    talk = Talk()
    talk.says(id="p1", method="ping")
    assert talk.channel.written == [{"id": "p1", "result": {}, "jsonrpc": "2.0"}]


async def test_a_plugin_that_pings_and_never_reads_is_ended():
    talk = Talk(max_buffered=1000)
    talk.channel.buffered = 990
    talk.says(id=1, method="ping")
    (error,) = talk.instance.fatal
    assert isinstance(error, Overloaded)
    assert talk.channel.written == []


async def test_a_session_gets_notifications_and_may_keep_them():
    talk = Talk()
    talk.says(method="list_changed")
    talk.says(method="message")
    assert talk.session.heard == ["list_changed", "message"]
    assert talk.instance.notifications == ["message"]


async def test_a_cancelled_call_that_is_never_answered_keeps_no_other_waiting():
    talk = Talk(cancel_grace=5)
    slow = talk.call("slow")
    talk.peer.withdraw(slow, "user is gone")
    assert talk.channel.written[-1]["method"] == "cancelled"
    assert talk.channel.aborted == [slow.number]
    assert (len(talk.peer.cancelled), talk.instance.stopping) == (0, [])
    next_call = talk.call("quick")
    assert [method for _, method in talk.channel.calls] == ["slow", "quick"]
    talk.says(id=slow.number, result="late")  # it was under way: nobody's fault
    assert talk.instance.dropped == []
    talk.says(id=next_call.number, result=1)
    assert bytes((await next_call).result) == b"1"


async def test_a_cancelled_call_that_must_be_answered_holds_back_the_others():
    talk = Talk(answers_cancelled_calls=True, cancel_grace=5)
    slow = talk.call("slow")
    talk.peer.withdraw(slow, "user is gone")
    talk.call("quick")
    assert [method for _, method in talk.channel.calls] == ["slow"]
    assert talk.instance.stopping == [talk.clock.time() + 5]
    talk.says(id=slow.number, result=None)
    assert [method for _, method in talk.channel.calls] == ["slow", "quick"]
    assert talk.instance.stopping[-1] is None


@pytest.mark.parametrize("answers_cancelled_calls", [True, False])
async def test_one_call_fails_by_itself_when_its_stream_does(answers_cancelled_calls):
    talk = Talk(answers_cancelled_calls=answers_cancelled_calls, max_in_flight=2)
    lost, other, waiting = talk.call("lost"), talk.call("other"), talk.call("waiting")
    talk.peer.fail_call(lost.number, Crashed("its stream was reset"))
    with pytest.raises(Crashed, match="reset"):
        await lost
    assert [method for _, method in talk.channel.calls] == ["lost", "other", "waiting"]
    talk.says(id=other.number, result=1)
    talk.says(id=waiting.number, result=2)
    assert [bytes((await each).result) for each in (other, waiting)] == [b"1", b"2"]
    talk.peer.fail_call(lost.number, Crashed("again"))  # changes nothing
    assert talk.instance.fatal == []


async def test_the_failed_stream_of_a_cancelled_call_counts_as_its_answer():
    talk = Talk(answers_cancelled_calls=True)
    slow = talk.call("slow")
    talk.peer.withdraw(slow, "user is gone")
    talk.peer.fail_call(slow.number, Crashed("closed, as asked"))
    assert (len(talk.peer.cancelled), talk.instance.stopping[-1]) == (0, None)


async def test_the_stream_of_a_call_that_timed_out_is_closed():
    talk = Talk()
    slow = talk.peer.submit("slow", {}, 3.0, None)
    talk.clock.advance(3.1)
    assert talk.channel.aborted == [slow.number]
    assert isinstance(slow.exception(), PluginError)


async def test_an_error_response_is_the_contracts_exception():
    talk = Talk()
    call = talk.call("m")
    talk.says(id=call.number, error={"code": 1, "message": "no"})
    error = talk.session.to_exception("m", await call)
    assert isinstance(error, CallFailed)
    assert isinstance(await call, Response)
