"""kaged: how a plugin lives, is looked after, and ends."""

from __future__ import annotations

import asyncio
import json
import os
import signal

import pytest

import plughost
from plughost.events import Exited, StateChanged
from tests.support import all_gone, plugin_process, seen, until
from tests.support.kaged import folder, spec


@pytest.fixture
def place(tmp_path, mark):
    return folder(tmp_path / mark)


async def reaches(told, state):
    """Until the instance has come to `state`; why."""
    while True:
        event = await asyncio.wait_for(told.get(), 30)
        if isinstance(event, StateChanged) and event.new == state:
            return event.why


async def asked(plugin, *methods):
    """How often each of `methods` has come to the plugin."""
    received = [message["method"] for message in await plugin.call("p.received")]
    return tuple(received.count(method) for method in methods)


async def soon(plugin, clock, seconds):
    """Let time pass, and whatever was written then arrive: the plugin answers in order."""
    clock.advance(seconds)
    await plugin.call("p.echo")


@pytest.mark.clause("KAGED-23")
async def test_health_is_asked_at_each_interval(slow_host, clock, tmp_path, mark):
    plugin = await slow_host.add(spec(folder(tmp_path / mark, health_interval_sec=10)))
    await plugin.call("p.echo")
    assert len(clock.pending) == 2  # its next check-up, and the deadlines of its calls
    await soon(plugin, clock, 9.9)
    assert await asked(plugin, "health.check") == (0,)
    for times in (1, 2, 3):
        await soon(plugin, clock, 0.2)
        assert await asked(plugin, "health.check", "ping") == (times, 0)
        await soon(plugin, clock, 9.8)
        assert await asked(plugin, "health.check", "ping") == (times, 0)
    received = await plugin.call("p.received")
    assert [message["params"] for message in received if message["method"] == "health.check"] == [{}] * 3
    assert (plugin.state, seen(plugin)["in_flight"]) == ("Running", 0)


@pytest.mark.clause("KAGED-23")
async def test_one_that_does_not_answer_within_five_seconds_is_started_again(
    slow_host, clock, tmp_path, mark
):
    plugin = await slow_host.add(spec(folder(tmp_path / mark, env={"silent": "health.check"})))
    await plugin.call("p.echo")
    with slow_host.events() as told:
        await soon(plugin, clock, 30)
        clock.advance(4.9)
        await plugin.call("p.echo")
        assert plugin.state == "Running"
        clock.advance(0.2)
        assert await reaches(told, "Backoff") == "it did not answer 'health.check' within 5 s"
        assert seen(plugin)["failures"] == 1
        clock.advance(1.1)
        await reaches(told, "Running")
    assert await plugin.call("p.echo", {"well": True}) == {"well": True}


@pytest.mark.clause("KAGED-23")
@pytest.mark.parametrize(
    ("unknown", "asked_for"),
    [("", (4, 0)), ("health.check", (1, 3)), ("health.check ping", (1, 1))],
)
async def test_who_does_not_know_the_question_is_asked_another_way_and_at_last_not_at_all(
    slow_host, clock, tmp_path, mark, unknown, asked_for
):
    plugin = await slow_host.add(spec(folder(tmp_path / mark, env={"unknown": unknown})))
    await plugin.call("p.echo")
    for _ in range(4):
        await soon(plugin, clock, 30)
    assert await asked(plugin, "health.check", "ping") == asked_for
    assert plugin.state == "Running"


@pytest.mark.clause("KAGED-23")
async def test_another_error_is_a_sign_of_life_and_the_question_stays(slow_host, clock, tmp_path, mark):
    place = folder(tmp_path / mark, env={"failing": "health.check"})
    plugin = await slow_host.add(spec(place))
    await plugin.call("p.echo")
    for _ in range(3):
        await soon(plugin, clock, 30)
    assert await asked(plugin, "health.check", "ping") == (3, 0)


@pytest.mark.clause("KAGED-23")
async def test_a_busy_plugin_is_not_sick(slow_host, clock, tmp_path, mark):
    """It holds a call for a minute and answers nothing meanwhile; then it answers both."""
    plugin = await slow_host.add(spec(folder(tmp_path / mark)))
    await plugin.call("p.echo")
    busy = asyncio.create_task(plugin.call("p.freeze", timeout=90))
    await until(lambda: seen(plugin)["in_flight"] == 1)
    for _ in range(6):
        clock.advance(10)
        await asyncio.sleep(0)
    assert (plugin.state, seen(plugin)["in_flight"]) == ("Running", 2)
    os.kill(plugin_process(mark), signal.SIGUSR1)
    assert await busy == "thawed"
    assert await asked(plugin, "health.check") == (1,)
    await soon(plugin, clock, 0.1)
    assert await asked(plugin, "health.check") == (2,)
    assert plugin.state == "Running"


@pytest.mark.clause("KAGED-23")
async def test_a_hung_plugin_is_found_five_seconds_after_the_deadline_of_what_it_was_given(
    slow_host, clock, tmp_path, mark
):
    plugin = await slow_host.add(spec(folder(tmp_path / mark)))
    await plugin.call("p.echo")
    with slow_host.events() as told:
        lost = asyncio.create_task(plugin.call("p.freeze", timeout=50))
        await until(lambda: seen(plugin)["in_flight"] == 1)
        clock.advance(54.8)
        await asyncio.sleep(0)
        with pytest.raises(plughost.Timeout):
            await lost
        assert plugin.state == "Running"
        clock.advance(0.4)
        assert "health.check" in await reaches(told, "Backoff")


@pytest.mark.clause("KAGED-23")
async def test_the_five_seconds_begin_with_the_answer_that_was_waited_for(slow_host, clock, tmp_path, mark):
    """It answers its call, and then hangs: the deadline of the call is not waited for."""
    plugin = await slow_host.add(spec(folder(tmp_path / mark, env={"silent": "health.check"})))
    await plugin.call("p.echo")
    with slow_host.events() as told:
        call = asyncio.create_task(plugin.call("p.hold", timeout=1000))
        await until(lambda: seen(plugin)["in_flight"] == 1)
        await soon(plugin, clock, 40)
        held = next(m["id"] for m in await plugin.call("p.received") if m["method"] == "p.hold")
        answers = '{"jsonrpc":"2.0","id":%d,"result":1}\n{"jsonrpc":"2.0","id":$ID,"result":1}\n' % held
        await plugin.call("p.raw", {"text": answers})
        assert await call == 1
        await asyncio.sleep(0)
        clock.advance(4.9)
        assert plugin.state == "Running"
        clock.advance(0.2)
        await reaches(told, "Backoff")


@pytest.mark.clause("KAGED-23")
@pytest.mark.parametrize("withdrawn", [10, 30], ids=["before it is asked", "after"])
async def test_a_call_that_was_withdrawn_keeps_a_plugin_busy_until_its_deadline(
    slow_host, clock, tmp_path, mark, withdrawn
):
    plugin = await slow_host.add(spec(folder(tmp_path / mark)))
    await plugin.call("p.echo")
    with slow_host.events() as told:
        lost = asyncio.create_task(plugin.call("p.freeze", timeout=100))
        await until(lambda: seen(plugin)["in_flight"] == 1)
        clock.advance(withdrawn)
        lost.cancel()
        await asyncio.gather(lost, return_exceptions=True)
        clock.advance(104.9 - withdrawn)
        assert plugin.state == "Running"
        clock.advance(0.2)
        await reaches(told, "Backoff")


@pytest.mark.clause("KAGED-23")
async def test_one_that_is_busy_with_what_nobody_waits_for_is_not_sick(slow_host, clock, tmp_path, mark):
    """Its caller has gone before its health was asked for."""
    plugin = await slow_host.add(spec(folder(tmp_path / mark)))
    await plugin.call("p.echo")
    lost = asyncio.create_task(plugin.call("p.freeze", timeout=90))
    await until(lambda: seen(plugin)["in_flight"] == 1)
    lost.cancel()
    await asyncio.gather(lost, return_exceptions=True)
    first = plugin_process(mark)
    for _ in range(6):
        clock.advance(10)
        await asyncio.sleep(0)
    os.kill(first, signal.SIGUSR1)
    assert await plugin.call("p.echo", {"a": 1}) == {"a": 1}
    assert (plugin.state, plugin_process(mark)) == ("Running", first)


@pytest.mark.clause("KAGED-23")
async def test_a_call_that_was_withdrawn_and_answered_keeps_nobody_busy(slow_host, clock, tmp_path, mark):
    plugin = await slow_host.add(spec(folder(tmp_path / mark, env={"silent": "health.check"})))
    await plugin.call("p.echo")
    with slow_host.events() as told:
        lost = asyncio.create_task(plugin.call("p.hold", timeout=1000))
        await until(lambda: seen(plugin)["in_flight"] == 1)
        lost.cancel()
        await asyncio.gather(lost, return_exceptions=True)
        held = next(m["id"] for m in await plugin.call("p.received") if m["method"] == "p.hold")
        answers = '{"jsonrpc":"2.0","id":%d,"result":1}\n{"jsonrpc":"2.0","id":$ID,"result":1}\n' % held
        await plugin.call("p.raw", {"text": answers})
        clock.advance(35.1)
        await reaches(told, "Backoff")


@pytest.mark.clause("KAGED-23", "KAGED-24")
async def test_a_question_under_way_does_not_keep_a_plugin_from_ending(slow_host, clock, tmp_path, mark):
    plugin = await slow_host.add(spec(folder(tmp_path / mark, env={"silent": "health.check"})))
    await plugin.call("p.echo")
    await soon(plugin, clock, 31)
    await asyncio.wait_for(plugin.stop(), 30)
    assert plugin.state == "Stopped"
    await all_gone(mark)


@pytest.mark.clause("KAGED-23")
async def test_a_reload_during_a_question_moves_on_and_the_new_one_is_looked_after(
    slow_host, clock, tmp_path, mark
):
    plugin = await slow_host.add(spec(folder(tmp_path / mark)))
    await plugin.call("p.echo")
    clock.advance(30)
    await plugin.reload()
    await soon(plugin, clock, 30)
    assert await asked(plugin, "health.check") == (1,)


@pytest.mark.clause("KAGED-24")
async def test_shutdown_is_asked_for_then_stdin_closes(slow_host, place, mark):
    plugin = await slow_host.add(spec(place))
    await plugin.call("p.echo")
    with slow_host.events() as told:
        await asyncio.wait_for(plugin.stop(), 30)
        exits = [event for event in iter(told.take, None) if isinstance(event, Exited)]
    assert [(event.expected, event.exit_status) for event in exits] == [(True, 0)]
    assert "shutdown" in exits[0].stderr_tail


@pytest.mark.clause("KAGED-24")
async def test_one_that_does_not_end_is_terminated_after_its_time_and_then_killed(
    slow_host, clock, tmp_path, mark
):
    env = {"rude": "1", "silent": "shutdown"}
    plugin = await slow_host.add(spec(folder(tmp_path / mark, shutdown_timeout_sec=3, env=env)))
    await plugin.call("p.echo")
    with slow_host.events() as told:
        stopping = asyncio.create_task(plugin.stop())
        await asyncio.sleep(0)
        clock.advance(2.9)
        await asyncio.sleep(0)
        assert plugin_process(mark)
        clock.advance(0.2)
        logs = slow_host.service("logs")
        await until(lambda: any("SIGTERM" in line.message for line in logs.recent("puppet")))
        assert not stopping.done()
        clock.advance(2)
        await asyncio.wait_for(stopping, 30)
        exits = [event for event in iter(told.take, None) if isinstance(event, Exited)]
    assert exits[0].exit_status == -signal.SIGKILL


@pytest.mark.clause("KAGED-32")
async def test_three_failures_in_a_minute_stop_it_until_a_reload(slow_host, clock, place):
    plugin = await slow_host.add(spec(place))
    await plugin.call("p.echo")
    with slow_host.events() as told:
        for delay in (1, 4):
            with pytest.raises(plughost.Crashed):
                await plugin.call("p.exit", {"code": 1})
            clock.advance(delay - 0.1)
            assert plugin.state == "Backoff"
            clock.advance(0.2)
            await reaches(told, "Running")
        with pytest.raises(plughost.Crashed):
            await plugin.call("p.exit", {"code": 1})
    assert plugin.state == "Quarantined"
    clock.advance(10_000)
    with pytest.raises(plughost.Quarantined, match="exited with code 1"):
        await plugin.call("p.echo")
    await plugin.reload()
    assert await plugin.call("p.echo", {"a": 1}) == {"a": 1}


@pytest.mark.clause("KAGED-32")
async def test_initialize_has_ten_seconds(slow_host, clock, tmp_path, mark):
    plugin = await slow_host.add(spec(folder(tmp_path / mark, env={"init": "never"}), failure_limit=1))
    call = asyncio.create_task(plugin.call("p.echo"))
    await until(lambda: len(clock.pending) == 2 and min(clock.pending) == 10)
    clock.advance(9.9)
    await asyncio.sleep(0)
    assert plugin.state == "Spawning"
    clock.advance(0.2)
    with pytest.raises(plughost.Timeout, match="no handshake within 10 s"):
        await call


@pytest.mark.clause("KAGED-32")
async def test_one_that_ends_before_it_is_ready_has_failed_with_its_last_words(slow_host, tmp_path, mark):
    plugin = await slow_host.add(spec(folder(tmp_path / mark, env={"init": "crash"}), failure_limit=1))
    with pytest.raises(plughost.Crashed) as caught:
        await plugin.call("p.echo")
    assert (caught.value.exit_status, caught.value.stderr_tail) == (3, "cannot start today")


async def test_an_eager_one_starts_with_the_host(slow_host, place):
    plugin = await slow_host.add(spec(place, eager=True))
    assert plugin.state == "Running"
    assert json.dumps(plugin.inspect())
