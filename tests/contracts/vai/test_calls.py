"""vai plugins that run: events, cancellation, collateral, identity, the end. Real processes and pipes."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

import plughost
import plughost.sync
from plughost import events
from plughost.contracts.vai.contract import IdentityMismatch, InvalidFrame, Vai
from plughost.contracts.vai.request_bodies import EventSubject, HookBody, HookEvent
from tests.support import all_gone, until
from tests.support.vai import CONTEXT, package, spec, tool


@pytest.fixture
def folder(tmp_path, mark):
    return package(tmp_path, mark)


async def started(view, **given):
    """A call that has begun, and waits to be told to stop."""
    begun = asyncio.Event()
    call = asyncio.create_task(view.tool(tool(do="wait", **given), on_event=lambda event: begun.set()))
    await asyncio.wait_for(begun.wait(), 20)
    return call


@pytest.mark.clause("VAI-31", "VAI-33", "VAI-35", "VAI-38")
async def test_a_tool_is_invoked_and_answers_in_its_own_words(host, folder):
    plugin = await host.add(spec(folder))
    outcome = await Vai(plugin).tool(tool(word="hi"))
    assert outcome.status == "succeeded"
    assert outcome.result.content == [{"type": "text", "text": "done"}]
    body = outcome.result.structured_output["body"]
    assert body["input"] == {"word": "hi"}
    assert body["context"] == msgspec.to_builtins(CONTEXT)
    failed = {"status": "retryable_failure", "error": {"code": "jira.busy", "message": "later"}}
    outcome = await Vai(plugin).tool(tool(answer=failed))
    assert (outcome.status, outcome.result, outcome.problem.code) == ("retryable_failure", None, "jira.busy")


@pytest.mark.clause("VAI-38", "VAI-53")
async def test_a_hook_s_ack_is_a_success(host, folder):
    view = Vai(await host.add(spec(folder)))
    for said, status in (
        ("ack", "succeeded"),
        ("failed", "failed"),
        ("retryable_failure", "retryable_failure"),
    ):
        assert (await view.hook(delivery({"answer": {"status": said}}))).status == status
    with pytest.raises(
        plughost.Malformed, match="its result of hook.handle is wrong: Invalid enum value 'done'"
    ):
        await view.hook(delivery({"answer": {"status": "done"}}))


def delivery(summary):
    event = HookEvent(
        type="run.completed",
        occurred_at="2026-03-12T19:00:00Z",
        subject=EventSubject("run", "run_1"),
        summary=summary,
    )
    return HookBody(export_id="react", context=CONTEXT, delivery_id="del_1", attempt=1, event=event)


@pytest.mark.clause("VAI-34")
async def test_events_come_in_their_order_and_before_the_answer(host, folder):
    view = Vai(await host.add(spec(folder)))
    heard = []
    await view.tool(tool(do="say", times=300), on_event=heard.append)
    assert [event["number"] for event in heard] == list(range(300))
    async with view.running("tool.invoke", tool(do="say", times=5)) as running:
        numbers = [event["number"] async for event in running]
        assert (numbers, (await running.outcome()).status) == ([0, 1, 2, 3, 4], "succeeded")


@pytest.mark.clause("VAI-36")
async def test_a_running_call_is_cancelled_by_name_or_by_leaving_it(host, folder):
    view = Vai(await host.add(spec(folder)))
    async with view.running("tool.invoke", tool(do="wait")) as running:
        assert [event["type"] async for event in _first(running)] == ["started"]
        running.cancel("operator_asked")
        outcome = await running.outcome()
        assert (outcome.status, outcome.problem.message) == ("cancelled", "operator_asked")
    async with view.running("tool.invoke", tool(do="wait")) as running:
        assert [event["type"] async for event in _first(running)] == ["started"]
    told = (await view.tool(tool())).result.structured_output["told"]
    assert [frame["reason"] for frame in told if isinstance(frame, dict)] == ["operator_asked", "cancelled"]


async def _first(running):
    async for event in running:
        yield event
        return


@pytest.mark.clause("VAI-34")
async def test_events_after_the_answer_or_of_nobody_are_recorded_and_never_delivered(host, folder):
    plugin = await host.add(spec(folder))
    heard = []
    with host.events() as stream:
        await Vai(plugin).tool(tool(do="late"), on_event=heard.append)
        await Vai(plugin).tool(tool())
        dropped = []
        async with asyncio.timeout(30):
            while len(dropped) < 3:
                dropped += [event] if isinstance(event := await stream.get(), events.Dropped) else []
    assert heard == []
    assert [event.what for event in dropped] == [
        "an event after the end of call 1",
        "an event for an unknown call 99999",
        "an event of a request that was never made",
    ]
    assert '"too late"' in dropped[0].head


@pytest.mark.clause("VAI-03", "VAI-34")
@pytest.mark.parametrize("options", [{"max_events": 10}, {"max_event_bytes": 600}], ids=str)
async def test_a_call_that_says_too_much_fails_and_is_told_to_stop(host, folder, options):
    view = Vai(await host.add(spec(folder, **options)))
    heard = []
    with pytest.raises(
        plughost.Overloaded, match="it sent (more than 10 events|events of more than 600 bytes)"
    ):
        await view.tool(tool(do="say", times=50), on_event=heard.append)
    assert len(heard) < 20
    with pytest.raises(plughost.Overloaded):
        await view.tool(tool(do="say", times=50))
    told = (await view.tool(tool())).result.structured_output["told"]
    assert {
        "protocol": "vai.rpc.v1",
        "type": "cancel",
        "request_id": "req_1",
        "reason": "budget_exceeded",
    } in told


def test_events_come_without_an_event_loop_too(folder):
    heard = []
    with plughost.sync.Host() as host:
        plugin = host.add(spec(folder))
        body = msgspec.to_builtins(tool(do="say", times=3))
        answer = plugin.call(
            "tool.invoke", body, on_event=lambda said: heard.append(msgspec.json.decode(said))
        )
        assert answer["status"] == "succeeded"
    assert [event["number"] for event in heard] == [0, 1, 2]


async def test_a_caller_that_fails_to_hear_gets_its_own_error(host, folder):
    view = Vai(await host.add(spec(folder)))

    def deaf(event):
        raise LookupError("not today")

    with pytest.raises(LookupError, match="not today"):
        await view.tool(tool(do="wait"), on_event=deaf)
    assert (await view.tool(tool())).status == "succeeded"


@pytest.mark.clause("VAI-35")
async def test_not_ok_is_a_failure_of_the_protocol(host, folder):
    view = Vai(await host.add(spec(folder)))
    with pytest.raises(plughost.CallFailed) as caught:
        await view.tool(tool(do="refuse"))
    assert caught.value.error == {"code": "protocol.invalid_frame", "message": "missing body"}
    assert (await view.tool(tool())).status == "succeeded"


@pytest.mark.clause("VAI-30", "VAI-39")
@pytest.mark.parametrize(
    ("body", "why"),
    [
        ('{"type":"response","id":"ID","ok":true,"body":{}}', "its protocol is ''"),
        (
            '{"protocol":"vai.rpc.v2","type":"response","id":"ID","ok":true,"body":{}}',
            "its protocol is 'vai.rpc.v2'",
        ),
        ('{"protocol":"vai.rpc.v1","id":"ID","ok":true,"body":{}}', "a frame without a type"),
        ("[]", "not a frame of vai.rpc.v1"),
    ],
)
async def test_a_frame_that_is_none_ends_the_plugin_and_names_the_code(host, folder, body, why):
    plugin = await host.add(spec(folder, failure_limit=1))
    text = body.replace("ID", "req_1")  # as long as what it will be
    with pytest.raises(InvalidFrame) as caught:
        await Vai(plugin).tool(tool(do="raw", text=f"Content-Length: {len(text)}\r\n\r\n{body}"))
    assert (caught.value.code, why in caught.value.message) == ("protocol.invalid_frame", True)
    assert plugin.state == "Quarantined"


@pytest.mark.clause("VAI-30")
@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("Content-Length: 16777217\r\n\r\n", "over the limit of 16777216"),
        ("X" * 8193, "a header block is larger than 8192 bytes"),
    ],
)
async def test_headers_and_bodies_are_bounded(host, folder, text, why):
    plugin = await host.add(spec(folder, failure_limit=1))
    with pytest.raises(InvalidFrame, match=why):
        await Vai(plugin).tool(tool(do="raw", text=text))


@pytest.mark.clause("VAI-32", "VAI-39")
@pytest.mark.parametrize("hello", ['{"package_id":"acme/other"}', '{"version":"1.0.1"}'])
async def test_a_plugin_that_says_it_is_another_is_ended(host, folder, mark, hello):
    plugin = await host.add(spec(folder, env={"hello": hello}, failure_limit=1))
    with pytest.raises(IdentityMismatch) as caught:
        await Vai(plugin).tool(tool())
    assert caught.value.code == "identity_mismatch"
    assert "its package is 'acme/puppet 1.0.0'" in caught.value.message
    await all_gone(mark)


@pytest.mark.clause("VAI-31")
async def test_a_plugin_without_a_proper_hello_does_not_start(slow_host, clock, folder):
    for hello, failure in (("garbage", "protocol.invalid_frame"), ("crash", "crashed"), ("never", "timeout")):
        plugin = await slow_host.add(
            msgspec.structs.replace(spec(folder, env={"hello": hello}, failure_limit=1), name=hello)
        )
        call = asyncio.create_task(Vai(plugin).tool(tool()))
        if hello == "never":
            await until(lambda: 15.0 in clock.pending)
            clock.advance(15)
        with pytest.raises(plughost.PluginError) as caught:
            await call
        assert caught.value.code == failure


@pytest.mark.clause("VAI-36", "VAI-39")
async def test_past_its_deadline_a_call_is_told_to_stop_and_its_caller_told_at_once(slow_host, clock, folder):
    plugin = await slow_host.add(spec(folder))
    view = Vai(plugin)
    begun = asyncio.Event()
    call = asyncio.create_task(view.tool(tool(do="wait"), timeout=7, on_event=lambda event: begun.set()))
    await asyncio.wait_for(begun.wait(), 20)
    clock.advance(7)
    with pytest.raises(plughost.Timeout):
        await call
    told = (await view.tool(tool())).result.structured_output["told"]
    assert told[1] == {
        "protocol": "vai.rpc.v1", "type": "cancel", "request_id": "req_1", "reason": "deadline_exceeded",
    }  # fmt: skip
    assert plugin.inspect()["instances"][0]["dropped"] == 0
    assert plugin.accepting_calls


@pytest.mark.clause("VAI-36")
async def test_a_cancelled_caller_s_reason_is_told_and_the_process_lives_on(slow_host, folder):
    plugin = await slow_host.add(spec(folder))
    view = Vai(plugin)
    await view.tool(tool())
    pid = plugin.inspect()["instances"][0]["pid"]
    for said, reason in (((), "cancelled"), (("operator_asked",), "operator_asked")):
        call = await started(view)
        call.cancel(*said)
        with pytest.raises(asyncio.CancelledError):
            await call
        assert not plugin.accepting_calls
        told = (await view.tool(tool())).result.structured_output["told"]
        assert told[-2]["reason"] == reason
        assert plugin.accepting_calls
    assert plugin.inspect()["instances"][0]["pid"] == pid


@pytest.mark.clause("VAI-36", "VAI-39")
async def test_a_call_that_does_not_stop_ends_the_process_and_its_neighbours(slow_host, clock, folder):
    plugin = await slow_host.add(spec(folder, cancel_grace=3.0, backoff=[0.5]))
    view = Vai(plugin)
    neighbour = await started(view)
    stubborn = await started(view, stops=False)
    stubborn.cancel()
    with pytest.raises(asyncio.CancelledError):
        await stubborn
    later = asyncio.create_task(view.tool(tool()))
    await until(lambda: plugin.inspect()["instances"][0]["waiting"] == 1)
    assert not plugin.accepting_calls
    clock.advance(2.9)
    assert not neighbour.done()
    clock.advance(0.2)
    with pytest.raises(plughost.CollateralFailure) as caught:
        await neighbour
    assert caught.value.code == "collateral"
    assert "one of them was still running 3 s after it was cancelled" in caught.value.message
    await until(lambda: plugin.state == "Backoff")
    clock.advance(0.5)
    assert (await later).status == "succeeded"  # by the next process: it had not been given to this one
    assert (await later).result.structured_output["told"] == ["req_3"]


@pytest.mark.clause("VAI-36")
async def test_each_of_several_cancelled_calls_has_its_own_grace(slow_host, clock, folder):
    plugin = await slow_host.add(spec(folder, cancel_grace=3.0))
    view = Vai(plugin)
    obedient, stubborn, another = [await started(view, stops=stops) for stops in (True, False, False)]

    async def told_to_stop(call, stopping):
        call.cancel()
        await asyncio.wait([call])
        await until(lambda: plugin.inspect()["instances"][0]["stopping"] == stopping)

    await told_to_stop(stubborn, 1)
    clock.advance(2)
    await told_to_stop(obedient, 1)
    await told_to_stop(another, 2)
    assert plugin.state == "Running"
    clock.advance(1)
    await until(lambda: plugin.state == "Backoff")


async def test_no_more_requests_are_in_flight_than_the_limit(host, folder):
    plugin = await host.add(spec(folder, max_in_flight=2))
    view = Vai(plugin)
    calls = [await started(view), await started(view)]
    third = asyncio.create_task(view.tool(tool()))
    await until(lambda: plugin.inspect()["instances"][0]["waiting"] == 1)
    assert plugin.inspect()["instances"][0]["in_flight"] == 2
    calls[0].cancel()
    assert (await third).status == "succeeded"
    calls[1].cancel()
    await asyncio.wait(calls)


@pytest.mark.clause("VAI-37")
async def test_it_is_told_to_shut_down_then_its_stdin_closes_then_it_is_killed(
    slow_host, clock, folder, tmp_path, mark
):
    witness = tmp_path / "witness"
    plugin = await slow_host.add(spec(folder, env={"witness": str(witness), "rude": "1"}, shutdown_grace=4.0))
    await Vai(plugin).tool(tool())
    stopping = asyncio.create_task(plugin.stop())
    await until(lambda: witness.exists() and witness.read_text())
    assert witness.read_text() == "shutdown, then b''"
    assert not stopping.done()
    clock.advance(4)
    await stopping
    await all_gone(mark)


@pytest.mark.clause("VAI-39")
async def test_a_crash_fails_every_call_in_flight(host, folder):
    view = Vai(await host.add(spec(folder)))
    neighbour = await started(view)
    with pytest.raises(plughost.Crashed, match="it exited with code 3"):
        await view.tool(tool(do="exit"))
    with pytest.raises(plughost.Crashed, match="it exited with code 3"):
        await neighbour


async def test_an_export_that_is_not_there_or_of_another_kind_is_refused_before_anything_is_sent(
    host, folder
):
    plugin = await host.add(spec(folder, exports=["react"]))
    for op, body in (
        ("tool.invoke", tool()),
        ("hook.handle", tool()),
        ("tool.invoke", msgspec.structs.replace(tool(), export_id="nobody")),
    ):
        with pytest.raises(plughost.UnknownMethod):
            await Vai(plugin).invoke(op, body)
    assert plugin.state == "Idle"


async def test_an_export_is_tried_by_its_id_with_a_context_of_its_own(host, folder):
    plugin = await host.add(spec(folder))
    answer = await plugin.call("act", {"word": "hi"})
    body = answer["result"]["structured_output"]["body"]
    assert (body["input"], body["export_id"], body["context"]["org_id"]) == ({"word": "hi"}, "act", "local")
    assert body["context"]["gateway"]["delegation_token"] is None
    assert await plugin.call("react", {"answer": {"status": "ack"}}) == {"status": "ack"}


@pytest.mark.clause("VAI-04")
async def test_its_environment_is_scrubbed(host, folder, monkeypatch):
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-of-the-host")
    monkeypatch.setenv("LANG", "C.UTF-8")
    view = Vai(await host.add(spec(folder, env={"hello": "{}"})))
    environment = (await view.tool(tool())).result.structured_output["env"]
    assert set(environment) - {"LC_CTYPE"} == {"PATH", "LANG", "hello"}
