"""ainb: how a plugin lives and dies."""

from __future__ import annotations

import asyncio
import json
import os
import signal

import pytest

import plughost
from plughost.contracts.ainb.contract import Ainb
from plughost.contracts.ainb.messages import Char, F, KeyEvent
from plughost.events import Exited, StateChanged
from tests.support import all_gone, plugin_process, processes, seen, until
from tests.support.ainb import ask, b64, events, folder, spec


@pytest.fixture
def place(tmp_path, mark):
    return folder(tmp_path / mark)


async def states(told, *wanted):
    """Until the instance has gone through all of `wanted`, in this order."""
    passed = []
    for state in wanted:
        while True:
            event = await asyncio.wait_for(told.get(), 30)
            if isinstance(event, StateChanged):
                passed.append(event.new)
                if event.new == state:
                    break
    return passed


async def crash(plugin):
    with pytest.raises(plughost.PluginError):
        await plugin.call("exit", {"code": 1})


@pytest.mark.clause("AINB-60", "AINB-62")
async def test_a_lazy_plugin_starts_with_its_first_request_and_an_eager_one_with_the_host(
    slow_host, tmp_path, mark
):
    lazy = await slow_host.add(spec(folder(tmp_path / mark, "lazy")))
    assert (lazy.state, processes(f"{mark}/lazy")) == ("Idle", [])
    with slow_host.events() as told:
        await lazy.call("echo", {})
        assert await states(told, "Running") == ["Spawning", "Running"]
    eager = await slow_host.add(spec(folder(tmp_path / mark, "eager", lifecycle={"spawn": "eager"})))
    assert eager.state == "Running"


@pytest.mark.clause("AINB-60", "AINB-61")
async def test_a_crash_backs_off_and_even_a_lazy_plugin_is_started_again(slow_host, clock, place):
    plugin = await slow_host.add(spec(place))
    await plugin.call("echo", {})
    with slow_host.events() as told:
        for failures, delay in ((1, 1.0), (2, 4.0)):
            await crash(plugin)
            assert (plugin.state, seen(plugin)["failures"]) == ("Backoff", failures)
            clock.advance(delay - 0.1)
            assert plugin.state == "Backoff"
            clock.advance(0.2)
            await states(told, "Running")
        await crash(plugin)
        assert plugin.state == "Quarantined"


@pytest.mark.clause("AINB-61")
async def test_quarantine_is_told_with_the_way_out_and_only_a_reload_leaves_it(slow_host, clock, place):
    plugin = await slow_host.add(spec(place, failure_limit=1))
    await plugin.call("echo", {})
    await crash(plugin)
    clock.advance(100_000)
    for _ in range(2):
        with pytest.raises(plughost.Quarantined) as caught:
            await plugin.call("echo", {})
        assert "exited with code 1" in str(caught.value)
        assert "reload" in caught.value.hint
    await plugin.reload()
    assert await plugin.call("echo", {"back": 1}) == {"back": 1}


@pytest.mark.clause("AINB-61")
async def test_failures_that_are_further_apart_than_the_window_do_not_add_up(slow_host, clock, place):
    plugin = await slow_host.add(spec(place))
    for _ in range(5):
        with slow_host.events() as told:
            await plugin.call("echo", {})
            await crash(plugin)
            assert seen(plugin)["failures"] == 1
            clock.advance(1.1)
            # Anew: time that passes before it is ready would be too much for its start.
            await states(told, "Backoff", "Running")
        clock.advance(60)


@pytest.mark.clause("AINB-61")
@pytest.mark.parametrize("code", [0, 3])
async def test_an_exit_while_running_is_a_failure_whatever_its_code(slow_host, place, code):
    plugin = await slow_host.add(spec(place))
    await plugin.call("echo", {})
    with pytest.raises(plughost.Crashed) as caught:
        await plugin.call("exit", {"code": code})
    assert caught.value.exit_status == code
    assert (plugin.state, seen(plugin)["failures"]) == ("Backoff", 1)


@pytest.mark.clause("AINB-61")
async def test_a_request_during_backoff_waits_for_the_respawn_within_its_own_time(slow_host, clock, place):
    plugin = await slow_host.add(spec(place))
    await plugin.call("echo", {})
    await crash(plugin)
    patient = asyncio.create_task(plugin.call("echo", {"n": 1}, timeout=30))
    hasty = asyncio.create_task(plugin.call("echo", {"n": 2}, timeout=0.5))
    await asyncio.sleep(0)
    clock.advance(0.6)
    with pytest.raises(plughost.Timeout, match="after a failure"):
        await hasty
    clock.advance(0.5)
    assert await patient == {"n": 1}


@pytest.mark.clause("AINB-61")
@pytest.mark.parametrize("how", ["crash", "refuse", "not executable"])
async def test_a_start_or_an_init_that_fails_counts(slow_host, clock, place, how):
    if how == "not executable":
        (place / "puppet").write_text("no program")
    plugin = await slow_host.add(spec(place, env={"init": how}))
    call = asyncio.create_task(plugin.call("echo", {}, timeout=1000))
    await until(lambda: plugin.state == "Backoff" or clock.advance(0))
    for _ in range(2):
        await until(lambda: plugin.state in ("Backoff", "Quarantined"))
        clock.advance(5)
    with pytest.raises(plughost.PluginError):
        await call
    assert (plugin.state, seen(plugin)["failures"]) == ("Quarantined", 3)


@pytest.mark.clause("AINB-28")
async def test_an_init_that_is_never_answered_is_a_failure_after_its_time(slow_host, clock, place, mark):
    plugin = await slow_host.add(spec(place, env={"init": "never"}, failure_limit=1))
    call = asyncio.create_task(plugin.call("echo", {}, timeout=1000))
    await until(lambda: seen(plugin).get("held_by"))
    clock.advance(14.9)
    await asyncio.sleep(0.01)
    assert not call.done()
    clock.advance(0.2)
    with pytest.raises(plughost.Timeout, match="no handshake within 15 s"):
        await call
    await all_gone(mark)


@pytest.mark.clause("AINB-28")
async def test_what_comes_while_it_starts_waits_in_order(slow_host, tmp_path, mark):
    place = folder(tmp_path / mark, subscribes={"snapshots": ["t"]})
    plugin = await slow_host.add(spec(place))
    view = Ainb(plugin)
    assert not view.event("before", b"nobody is there")
    first = asyncio.create_task(plugin.call("echo", {"n": 1}))
    await asyncio.sleep(0)
    assert plugin.state == "Spawning"
    assert view.event("a", b"1")
    second = asyncio.create_task(plugin.call("received", {}))
    await asyncio.sleep(0)
    slow_host.service("snapshots").put("t", b"2")
    assert view.key("s", KeyEvent(Char("k")))
    assert plugin.state == "Spawning"
    assert await first == {"n": 1}
    between = [method for method, _ in await second]
    assert between == ["plugin/init", "plugin/handle_key", "plugin/handle_event"]
    assert await events(plugin) == [("a", "1"), ("t", "2")]


@pytest.mark.clause("AINB-63")
async def test_an_idle_plugin_is_reaped_and_the_next_request_starts_it_anew(slow_host, clock, place, mark):
    plugin = await slow_host.add(spec(place))
    await plugin.call("echo", {})
    clock.advance(599)
    assert plugin.state == "Running"
    await plugin.call("echo", {})
    clock.advance(599)
    assert plugin.state == "Running"
    with slow_host.events() as told:
        clock.advance(2)
        exited = await asyncio.wait_for(told.get(), 30)
        while not isinstance(exited, Exited):
            exited = await asyncio.wait_for(told.get(), 30)
    assert (exited.expected, exited.exit_status) == (True, 0)
    await all_gone(mark)
    assert await plugin.call("echo", {"anew": 1}) == {"anew": 1}
    assert seen(plugin)["failures"] == 0


@pytest.mark.clause("AINB-63", "AINB-64", "AINB-03")
@pytest.mark.parametrize("why", ["request", "shown", "declared", "subscribed", "eager", "zero", "option"])
async def test_what_keeps_a_plugin_from_being_reaped(slow_host, clock, tmp_path, mark, why):
    sections = {
        "declared": {"subscribes": {"snapshots": ["t"]}},
        "eager": {"lifecycle": {"spawn": "eager"}},
        "zero": {"lifecycle": {"idle_reap_secs": 0}},
    }.get(why, {})
    options = {"idle_reap_secs": 0} if why == "option" else {}
    plugin = await slow_host.add(spec(folder(tmp_path / mark, **sections), **options))
    await plugin.call("echo", {})
    waiting = asyncio.create_task(plugin.call("silent", {}, timeout=1e9)) if why == "request" else None
    if why == "subscribed":
        await ask(plugin, "host/snapshot/subscribe", {"topic": "t"})
    shown = Ainb(plugin).shown()
    if why == "shown":
        shown.__enter__()
    await asyncio.sleep(0.01)
    for _ in range(4):
        clock.advance(1000)
    assert plugin.state == "Running"
    if why == "shown":
        shown.__exit__(None, None, None)
        for _ in range(3):
            clock.advance(1000)
        await all_gone(mark)
    if waiting is not None:
        waiting.cancel()


@pytest.mark.clause("AINB-65")
async def test_requests_in_flight_fail_at_once_with_the_cause_and_none_is_replayed(
    slow_host, clock, place, mark
):
    plugin = await slow_host.add(spec(place))
    await plugin.call("echo", {})
    calls = [asyncio.create_task(plugin.call("silent", {"n": n}, timeout=1000)) for n in range(20)]
    await until(lambda: seen(plugin)["in_flight"] == 20)
    os.kill(plugin_process(mark), signal.SIGKILL)
    for outcome in await asyncio.wait_for(asyncio.gather(*calls, return_exceptions=True), 30):
        assert isinstance(outcome, plughost.Crashed)
        assert outcome.exit_status == -9
    with slow_host.events() as told:
        clock.advance(1.1)
        await states(told, "Running")
    assert [method for method, _ in await plugin.call("received")] == ["plugin/init"]


@pytest.mark.clause("AINB-66")
async def test_the_environment_is_five_variables_and_what_the_operator_lists(host, place, monkeypatch):
    monkeypatch.setenv("SECRET", "x")
    monkeypatch.setenv("AINB_HOME", "/somewhere")
    monkeypatch.setenv("LANG", "C.UTF-8")
    monkeypatch.setenv("TERM", "dumb")
    plugin = await host.add(spec(place, env={"EXTRA": "1"}))
    env = (await plugin.call("pid"))["env"]
    assert set(env) - {"LC_CTYPE"} == {"HOME", "PATH", "LANG", "TERM", "AINB_HOME", "EXTRA"}


# The end


@pytest.mark.clause("AINB-21")
async def test_shutdown_is_a_request_then_stdin_closes_and_exit_0_is_clean(host, place, mark):
    plugin = await host.add(spec(place))
    await plugin.call("echo", {})
    with host.events() as told:
        await plugin.stop()
        event = await told.get()
        while not isinstance(event, Exited):
            event = await told.get()
    assert (event.expected, event.exit_status) == (True, 0)
    await all_gone(mark)


@pytest.mark.clause("AINB-21")
async def test_one_that_does_not_end_gets_sigterm_after_the_grace_and_sigkill_two_seconds_later(
    slow_host, clock, place, mark
):
    plugin = await slow_host.add(spec(place, env={"rude": "1"}))
    await plugin.call("echo", {})
    stopping = asyncio.create_task(plugin.stop())
    await until(lambda: plugin.inspect()["instances"][0]["state"] == "ShuttingDown")
    logs = slow_host.service("logs")
    clock.advance(4.9)
    await asyncio.sleep(0.02)
    assert logs.recent("puppet") == []
    clock.advance(0.2)
    await until(lambda: [line.message for line in logs.recent("puppet")] == ["SIGTERM, so what"])
    assert processes(mark)
    clock.advance(2)
    await asyncio.wait_for(stopping, 30)
    await all_gone(mark)


@pytest.mark.clause("AINB-21")
async def test_the_grace_is_settable_and_a_bad_exit_at_the_end_is_no_failure(slow_host, clock, place, mark):
    plugin = await slow_host.add(spec(place, env={"rude": "1"}, shutdown_grace=0.5))
    await plugin.call("echo", {})
    with slow_host.events() as told:
        stopping = asyncio.create_task(plugin.stop())
        await asyncio.sleep(0)
        clock.advance(0.6)
        clock.advance(2.1)
        await asyncio.wait_for(stopping, 30)
        seen_events = [await told.get() for _ in range(len(told))]
    (exited,) = [event for event in seen_events if isinstance(event, Exited)]
    assert (exited.expected, exited.exit_status) == (True, -9)


@pytest.mark.clause("AINB-60")
@pytest.mark.parametrize("state", ["Idle", "Spawning", "Running", "Backoff", "Quarantined"])
async def test_a_host_that_stops_in_any_state_leaves_nothing(clock, place, mark, state):
    async with plughost.Host(clock=clock) as host:
        init = "never" if state == "Spawning" else "full"
        plugin = await host.add(
            spec(place, env={"init": init}, failure_limit=1 if state == "Quarantined" else 3)
        )
        call = None
        if state != "Idle":
            call = asyncio.create_task(plugin.call("echo", {}, timeout=1000))
            await until(lambda: plugin.state == ("Spawning" if state == "Spawning" else "Running"))
        if state in ("Backoff", "Quarantined"):
            await call
            await crash(plugin)
        assert plugin.state == state
    if call is not None:
        await asyncio.wait_for(asyncio.gather(call, return_exceptions=True), 30)
    await all_gone(mark)


# Frames


@pytest.mark.clause("AINB-29")
async def test_one_frame_is_in_flight_and_those_who_ask_meanwhile_share_the_newest(slow_host, place):
    plugin = await slow_host.add(spec(place, env={"wedge": "1"}))
    view = Ainb(plugin)
    await plugin.call("echo", {})
    first = asyncio.create_task(view.render(10, 1))
    await until(lambda: seen(plugin)["in_flight"] == 1)
    others = [asyncio.create_task(Ainb(plugin).render(width, 2)) for width in (20, 30, 40)]
    await asyncio.sleep(0.02)
    assert seen(plugin)["in_flight"] == 1
    plugin.notify("release")
    assert (await first).buffer.width == 10
    plugin.notify("release")
    assert {(await other).buffer.width for other in others} == {40}


@pytest.mark.clause("AINB-22", "AINB-29")
async def test_a_frame_past_its_deadline_makes_the_plugin_unresponsive_until_it_comes(
    slow_host, clock, place
):
    plugin = await slow_host.add(spec(place, env={"wedge": "1"}))
    view = Ainb(plugin)
    await plugin.call("echo", {})
    frame = asyncio.create_task(view.render(10, 1))
    await until(lambda: seen(plugin)["in_flight"] == 1)
    clock.advance(1.9)
    await asyncio.sleep(0.01)
    assert not frame.done()
    clock.advance(0.2)
    with pytest.raises(plughost.Timeout, match="no frame within 2 s"):
        await frame
    assert view.unresponsive
    assert await plugin.call("echo", {"not": "frozen"}) == {"not": "frozen"}
    again = asyncio.create_task(view.render(20, 1))
    await asyncio.sleep(0.01)
    assert seen(plugin)["in_flight"] == 1  # the late one is still being drawn
    plugin.notify("release")
    await until(lambda: not view.unresponsive)
    plugin.notify("release")
    assert (await again).buffer.width == 20


@pytest.mark.clause("AINB-22", "AINB-65")
@pytest.mark.parametrize("method", ["plugin/render", "plugin/cli_dispatch"])
async def test_a_crash_in_the_middle_of_a_frame_is_told_and_the_next_one_works(
    slow_host, clock, place, method
):
    plugin = await slow_host.add(spec(place, env={"crash_on": method}))
    view = Ainb(plugin)
    with pytest.raises(plughost.Crashed):
        await (view.render(10, 1) if method == "plugin/render" else view.cli("n", []))
    assert plugin.state == "Backoff"
    assert not view.unresponsive
    clock.advance(1.1)
    assert await plugin.call("echo", {}) == {}


async def test_a_crash_in_the_middle_of_a_chunk_breaks_nothing_else(host, tmp_path, mark):
    """Half a publish is no publish."""
    plugin = await host.add(spec(folder(tmp_path / mark, "publisher"), failure_limit=1))
    other = await host.add(spec(folder(tmp_path / mark, "other", subscribes={"snapshots": ["t"]})))
    await plugin.call("echo", {})
    await other.call("echo", {})
    body = json.dumps(
        {
            "jsonrpc": "2.0",
            "method": "host/snapshot/publish",
            "params": {"topic": "t", "payload": b64("x" * 10_000)},
        }
    )
    half = f"Content-Length: {len(body)}\r\n\r\n{body[:5000]}"
    raw = asyncio.create_task(plugin.call("raw", {"text": half}))
    end = asyncio.create_task(plugin.call("exit", {"code": 0}))
    await asyncio.gather(raw, end, return_exceptions=True)
    assert plugin.state == "Quarantined"
    assert await events(other) == []


@pytest.mark.parametrize("key", [Char("ab"), F(300), Char("")])
async def test_what_no_plugin_could_read_is_not_sent(slow_host, place, key):
    plugin = await slow_host.add(spec(place))
    await plugin.call("echo", {})
    view = Ainb(plugin)
    with pytest.raises(plughost.InvalidSpec):
        view.key("s", KeyEvent(key))
    with pytest.raises(plughost.InvalidSpec):
        await view.render(70_000, -3)
    with pytest.raises(plughost.InvalidSpec, match="cannot be sent"):
        view.event("t", b"x" * (16 << 20))
    assert await plugin.call("echo", {"still": 1}) == {"still": 1}
