"""The whole engine under a contract it has never heard of: both ways, supervised, reloaded."""

from __future__ import annotations

import asyncio
import json
import math
import os
import signal

import msgspec
import pytest

import plughost
from plughost import config
from plughost.contracts.registry import contract_names
from plughost.events import Dropped, Exited, Notified, StateChanged
from plughost.scaffold import writer
from tests.support import PLUGINS, PYTHON, all_gone, plugin_process, processes, seen, token, until

pytestmark = pytest.mark.usefixtures("mark")


def parley(mark, *, env=None, grants=(), **options):
    return plughost.PluginSpec(
        contract="parley",
        name="p",
        command=[*PYTHON, str(PLUGINS / "parley_puppet.py"), mark],
        env=env or {},
        grants=grants,
        options=options,
    )


async def add(host, mark, **more):
    async def add_numbers(plugin, params):
        return params.a + params.b

    async def secret(plugin, params):
        return "hunter2"

    host.provide("add", add_numbers)
    host.provide("secret", secret)
    return await host.add(parley(mark, **more))


async def test_a_typed_client_is_found_by_its_entry_point(host, mark):
    plugin = await add(host, mark)
    assert await plugin.client().echo(x=1) == {"x": 1}


def test_templates_are_found_by_their_entry_point(tmp_path):
    made = writer.write("parley", "chat", "python", tmp_path)
    assert (made.files, made.next["try"]) == (["chat.py", "parley.json"], "plughost call . echo")
    assert (tmp_path / "chat/chat.py").read_text() == '"""hello from chat"""\n'
    assert config.load_folder(tmp_path / "chat").contract == "parley"


async def states(events, wanted):
    """The states an instance goes through until `wanted`."""
    passed = []
    while not passed or passed[-1] != wanted:
        event = await events.get()
        if isinstance(event, StateChanged):
            passed.append(event.new)
    return passed


async def test_a_contract_is_found_by_its_entry_point_alone(host, mark):
    assert "parley" in contract_names()
    plugin = await add(host, mark)
    assert await plugin.call("echo", {"x": 1}) == {"x": 1}


async def test_a_folder_is_told_by_the_contracts_own_manifest(host, mark, tmp_path):
    command = [*PYTHON, str(PLUGINS / "parley_puppet.py"), mark]
    (tmp_path / "parley.json").write_text(json.dumps({"name": "folder", "command": command}))
    plugin = await host.add(tmp_path)
    assert (plugin.name, plugin.contract) == ("folder", "parley")
    assert await plugin.call("echo", 1) == 1


async def test_the_handshake_comes_first_then_the_greeting_then_the_calls(host, mark, tmp_path):
    log = tmp_path / "log"
    plugin = await add(host, mark, env={"log": str(log)}, greeting="salve")
    await asyncio.gather(*(plugin.call("echo", n) for n in range(3)))
    await plugin.stop()
    lines = log.read_text().splitlines()
    assert json.loads(lines[0]) == {"id": 1, "method": "hello", "params": {"greeting": "salve"}}
    assert json.loads(lines[1]) == {"method": "welcome"}
    assert [json.loads(line)["id"] for line in lines[2:5]] == [2, 3, 4]
    assert [line for line in lines[5:] if not line.startswith("{")] == ["bye", "EOF"]


async def test_a_plugin_may_ask_the_host(host, mark):
    plugin = await add(host, mark)

    async def ask(method, params):
        reply = await plugin.call("ask", {"method": method, "params": params})
        return reply.get("result", reply.get("error"))

    assert await ask("host/add", {"a": 1, "b": 2}) == 3
    assert (await ask("host/add", {"a": "x"}))["code"] == -32602
    assert (await ask("host/nothing", {}))["code"] == -32601
    assert (await ask("host/missing", {}))["code"] == -32601
    assert await ask("host/secret", {}) == {"code": -32001, "message": "capability denied: secrets"}


async def test_a_granted_capability_opens_the_service(host, mark):
    plugin = await add(host, mark, grants=("secrets",))
    reply = await plugin.call("ask", {"method": "host/secret", "params": {}})
    assert reply["result"] == "hunter2"


async def test_a_plugin_may_ask_the_host_before_it_answers_the_handshake(host, mark):
    plugin = await add(host, mark, env={"handshake": "asks first"})
    assert await plugin.call("echo", 1, timeout=10) == 1


async def test_a_service_that_fails_is_refused_and_the_talk_goes_on(host, mark):
    plugin = await add(host, mark)

    async def broken(plugin, params):
        raise RuntimeError("secret detail")

    host.provide("add", broken)
    reply = await plugin.call("ask", {"method": "host/add", "params": {"a": 1, "b": 2}})
    assert "secret detail" not in json.dumps(reply)
    assert reply["error"]["code"] == -32602
    assert await plugin.call("echo", 1) == 1


async def test_a_plugin_that_asks_too_much_is_not_read_until_it_was_served(host, mark, tmp_path):
    log = tmp_path / "log"
    plugin = await add(host, mark, env={"log": str(log)}, max_reverse=4)
    serving, gate, most = 0, asyncio.Event(), 0

    async def slow(plugin, params):
        nonlocal serving, most
        serving += 1
        most = max(most, serving)
        await gate.wait()
        serving -= 1

    host.provide("slow", slow)
    call = asyncio.create_task(plugin.call("ask_many", 5000, timeout=30))
    await until(lambda: serving == 4)
    await asyncio.sleep(0.1)
    assert serving == 4, "the others wait for their turn, and with a thousand of them nothing more is read"
    gate.set()
    assert await call == 5000
    await until(lambda: serving == 0)
    assert most == 4


async def test_notifications_reach_observers_in_order(host, mark):
    plugin = await add(host, mark)
    with host.events() as events:
        assert await plugin.call("flood", 2000) == 2000
        heard = []
        while len(heard) < 2000:
            event = await events.get()
            if isinstance(event, Notified):
                heard.append(int(bytes(event.params)))
    assert heard == list(range(2000))


async def test_an_observer_that_does_not_look_loses_the_oldest_and_slows_nobody(host, mark):
    plugin = await add(host, mark)
    with host.events(limit=100) as events:
        assert await plugin.call("flood", 5000, timeout=30) == 5000
        assert events.missed >= 4900
        last = None
        for _ in range(100):
            last = await events.get()
        assert isinstance(last, Notified)
        assert bytes(last.params) == b"4999"


async def test_noise_is_dropped_and_a_broken_frame_ends_the_process(host, mark):
    plugin = await add(host, mark)
    await plugin.call("echo", 1)
    with host.events() as events:
        call = asyncio.create_task(plugin.call("raw", "Content-Length: 4\r\n\r\nnope"))
        while not isinstance(event := await events.get(), Dropped):
            pass
        assert event.head == "nope"
        assert not call.done()
        other = asyncio.create_task(plugin.call("raw", "a stray print\n"))
        for doomed in (call, other):
            with pytest.raises(plughost.Malformed, match="CRLF"):
                await doomed
        assert (await states(events, "Backoff"))[-1] == "Backoff"


# Supervision


async def test_a_crash_fails_what_was_in_flight_and_a_respawn_serves_what_waits(slow_host, clock, mark):
    plugin = await add(slow_host, mark)
    await plugin.call("echo", 1)
    lost = asyncio.create_task(plugin.call("silent"))
    with slow_host.events() as events:
        with pytest.raises(plughost.Crashed) as caught:
            await plugin.call("exit", 7)
        assert caught.value.exit_status == 7
        with pytest.raises(plughost.Crashed):
            await lost
        waiting = asyncio.create_task(plugin.call("echo", 2))
        hasty = asyncio.create_task(plugin.call("echo", 3, timeout=0.5))
        await asyncio.sleep(0)
        assert plugin.state == "Backoff"
        clock.advance(0.5)
        with pytest.raises(plughost.Timeout, match="waiting to be restarted after a failure"):
            await hasty
        clock.advance(0.5)
        assert await waiting == 2
        assert await states(events, "Running") == ["Backoff", "Spawning", "Running"]


async def test_three_failures_quarantine_and_a_reload_leaves_it(slow_host, clock, mark):
    plugin = await add(slow_host, mark, env={"crash_at_start": "3"})
    call = asyncio.create_task(plugin.call("echo", 1, timeout=1000))
    for delay in (1, 4):
        await until(lambda: plugin.state == "Backoff")
        assert clock.pending[0] == delay
        clock.advance(delay)
    with pytest.raises(plughost.Crashed, match="code 3") as caught:
        await call
    assert caught.value.stderr_tail == "cannot start today"
    with pytest.raises(plughost.Quarantined) as caught:
        await plugin.call("echo", 1)
    assert caught.value.exit_status == 3
    assert "reload" in caught.value.hint
    assert plugin.state == "Quarantined"
    await plugin.reload()
    assert (plugin.state, plugin.generation) == ("Idle", 2)


async def test_a_refused_handshake_is_a_failure_with_its_reason(host, mark):
    plugin = await add(host, mark, env={"handshake": "refuse"}, respawn=False)
    with pytest.raises(plughost.HandshakeFailed, match="does not want to talk"):
        await plugin.call("echo", 1)
    await all_gone(mark)


async def test_a_handshake_that_never_comes_is_a_failure(slow_host, clock, mark):
    plugin = await add(slow_host, mark, env={"handshake": "never"}, respawn=False)
    call = asyncio.create_task(plugin.call("echo", 1))
    await until(lambda: seen(plugin).get("held_by"))
    clock.advance(15)
    with pytest.raises(plughost.Timeout, match="no handshake within 15 s"):
        await call


async def test_death_while_idle_is_noticed_and_told_at_once(host):
    """Once of many times: a busy machine may be late, the host may not."""
    loop = asyncio.get_running_loop()
    took = [math.inf]
    for n in range(20):
        mark = token()
        plugin = await host.add(msgspec.structs.replace(parley(mark), name=f"p{n}"))
        await plugin.call("echo", 1)
        victim = plugin_process(mark)
        with host.events() as events:
            start = loop.time()
            os.kill(victim, signal.SIGKILL)
            while not isinstance(event := await events.get(), Exited):
                pass
            took.append(loop.time() - start)
        assert (event.exit_status, event.expected) == (-9, False)
        await host.remove(plugin.name)
        if n >= 4 and min(took) < 0.05:
            return
    pytest.fail(f"told after {took}")


async def test_an_idle_plugin_is_reaped_and_the_next_call_starts_it_anew(slow_host, clock, mark):
    plugin = await add(slow_host, mark, idle_reap=600)
    assert await plugin.call("echo", 1) == 1
    clock.advance(599)
    assert await plugin.call("echo", 2) == 2  # activity
    clock.advance(599)
    assert plugin.state == "Running"
    slow = asyncio.create_task(plugin.call("silent", timeout=10_000))
    await asyncio.sleep(0)
    clock.advance(601)
    assert plugin.state == "Running", "it was reaped with a request in flight"
    slow.cancel()
    await asyncio.gather(slow, return_exceptions=True)
    clock.advance(600)
    await until(lambda: not processes(mark))
    assert plugin.state == "Idle"
    assert await plugin.call("echo", 3) == 3
    assert seen(plugin)["failures"] == 0


async def test_an_eager_plugin_runs_when_it_was_added(host, mark):
    plugin = await add(host, mark, eager=True)
    assert plugin.state == "Running"


# Reload


async def test_a_reload_under_load_fails_no_call_and_leaves_one_process(host, mark):
    plugin = await add(host, mark, max_in_flight=8)
    served = set()
    calls = 0
    reloading = True

    async def caller(n):
        nonlocal calls
        while reloading:
            assert await plugin.call("echo", n) == n
            calls += 1

    callers = [asyncio.create_task(caller(n)) for n in range(32)]
    await until(lambda: calls > 50)
    for _ in range(5):
        served.add(plugin_process(mark))
        before = calls
        await plugin.reload()
        await until(lambda mark_=before: calls > mark_ + 50)
    reloading = False
    await asyncio.gather(*callers)
    assert plugin.generation == 6
    await until(lambda: len(plugin.inspect()["instances"]) == 1)
    await until(lambda: len(processes(mark)) == 3)


async def test_calls_in_flight_finish_at_the_old_generation_while_new_ones_go_to_the_new(
    host, mark, tmp_path
):
    plugin = await add(host, mark)
    slow = asyncio.create_task(plugin.call("until", str(tmp_path / "gate")))
    await until(lambda: seen(plugin).get("in_flight") == 1)
    await plugin.reload()
    assert await plugin.call("echo", 1) == 1
    generations = [instance["generation"] for instance in plugin.inspect()["instances"]]
    assert generations == [1, 2]
    assert plugin.inspect()["instances"][0]["state"] == "Draining"
    (tmp_path / "gate").touch()
    assert await slow == "slept"
    await until(lambda: len(plugin.inspect()["instances"]) == 1)


async def test_reloads_at_the_same_time_leave_one_process(host, mark):
    plugin = await add(host, mark)
    await plugin.call("echo", 1)
    await asyncio.gather(*(plugin.reload() for _ in range(3)))
    assert plugin.generation == 4
    assert await plugin.call("echo", 1) == 1
    await until(lambda: len(plugin.inspect()["instances"]) == 1)
    await until(lambda: len(processes(mark)) == 3)


async def test_a_replaced_generation_is_said_goodbye_to(host, mark, tmp_path):
    log = tmp_path / "log"
    plugin = await add(host, mark, env={"log": str(log)})
    await plugin.call("echo", 1)
    await plugin.reload()
    # Both generations write to the log: what the new one is greeted with may come in between.
    await until(lambda: {"bye", "EOF"} <= set(log.read_text().splitlines()))


async def test_calls_that_wait_move_over_to_the_new_generation(host, mark, tmp_path):
    plugin = await add(host, mark, max_in_flight=1)
    blocking = asyncio.create_task(plugin.call("until", str(tmp_path / "gate")))
    waiting = [asyncio.create_task(plugin.call("echo", n)) for n in range(3)]
    await until(lambda: seen(plugin).get("waiting") == 3)
    await plugin.reload()
    assert await asyncio.gather(*waiting) == [0, 1, 2]
    assert not blocking.done()
    (tmp_path / "gate").touch()
    assert await blocking == "slept"


async def test_a_reload_that_does_not_start_leaves_the_old_generation_serving(host, mark, tmp_path):
    script = tmp_path / "plugin.py"
    script.write_text((PLUGINS / "parley_puppet.py").read_text())
    spec = plughost.PluginSpec(
        contract="parley", name="p", command=[*PYTHON, str(script), mark], options={"respawn": False}
    )
    plugin = await host.add(spec)
    pid = (await plugin.call("pid"))[0]
    script.write_text("raise SystemExit('broken today')")
    with pytest.raises(plughost.PluginError, match="code 1"):
        await plugin.reload()
    assert (await plugin.call("pid"))[0] == pid
    assert len(plugin.inspect()["instances"]) == 1


async def test_a_drain_that_takes_longer_than_the_grace_is_cut_short(slow_host, clock, mark):
    plugin = await add(slow_host, mark)
    stuck = asyncio.create_task(plugin.call("silent", timeout=1000))
    await until(lambda: seen(plugin).get("in_flight") == 1)
    await plugin.reload()
    clock.advance(5)
    with pytest.raises(plughost.Stopped):
        await stuck
    assert await plugin.call("echo", 1) == 1


# The end


async def test_a_rude_plugin_is_asked_then_sent_a_polite_signal(clock, mark, tmp_path):
    log = tmp_path / "log"
    host = plughost.Host(clock=clock)
    plugin = await add(host, mark, env={"rude": "1", "log": str(log)}, grace=7, term_grace=2)
    await plugin.call("echo", 1)
    with host.events() as events:
        closing = asyncio.create_task(plugin.stop())
        await until(lambda: "bye" in log.read_text())
        clock.advance(4.9)
        await asyncio.sleep(0.02)
        assert not closing.done()
        clock.advance(0.1)  # no reply in 7 - 2 s
        while not isinstance(event := await events.get(), Exited):
            pass
        await closing
    assert (event.exit_status, event.expected) == (-signal.SIGTERM, True)
    await host.close()


async def test_leaving_the_host_ends_every_plugin_within_the_longest_grace(mark):
    loop = asyncio.get_running_loop()
    async with plughost.Host() as host:
        plugin = await add(host, mark, env={"rude": "1"}, grace=0.5)
        await plugin.call("echo", 1)
        start = loop.time()
    assert loop.time() - start < 4, "it had the usual grace"
    assert processes(mark) == []


async def test_leaving_the_host_while_cancelled_ends_every_plugin_too(mark):
    loop = asyncio.get_running_loop()
    started = asyncio.Event()

    async def embed():
        async with plughost.Host() as host:
            plugin = await add(host, mark, env={"rude": "1"}, grace=600)
            await plugin.call("echo", 1)
            started.set()

    task = asyncio.create_task(embed())
    await started.wait()
    await asyncio.sleep(0.05)
    start = loop.time()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert loop.time() - start < 60
    await all_gone(mark)


async def test_a_plugin_that_stops_reading_stalls_only_its_own_callers(host, mark):
    deaf = await add(host, mark)
    await deaf.call("deaf")
    body = "x" * 100_000
    stuck = [asyncio.create_task(deaf.call("echo", body, timeout=60)) for _ in range(50)]
    await asyncio.sleep(0)
    good = await host.add(
        plughost.PluginSpec(
            contract="parley", name="good", command=[*PYTHON, str(PLUGINS / "parley_puppet.py"), mark]
        )
    )
    loop = asyncio.get_running_loop()
    took = []
    for n in range(50):
        start = loop.time()
        assert await good.call("echo", n, timeout=30) == n
        took.append(loop.time() - start)
    assert sorted(took)[25] < 0.5
    assert seen(deaf)["waiting"] > 40, "calls were written past the high-water mark"
    for call in stuck:
        call.cancel()
    await asyncio.gather(*stuck, return_exceptions=True)


async def test_a_flood_of_notifications_lets_its_neighbours_through(host, mark):
    """Read by the whole pipe, some 1,300 notifications would come between two calls of a neighbour."""
    loud = await add(host, mark)
    quiet = await host.add(
        plughost.PluginSpec(
            contract="parley", name="quiet", command=[*PYTHON, str(PLUGINS / "parley_puppet.py"), mark]
        )
    )
    await asyncio.gather(loud.call("echo", 1), quiet.call("echo", 1))
    between = []
    with host.events(limit=100_000) as events:
        flood = asyncio.create_task(loud.call("burst", 50_000, timeout=60))
        while not flood.done():
            before = len(events)
            await quiet.call("echo", 1)
            between.append(len(events) - before)
    assert await flood == 50_000
    busy = sorted(count for count in between if count)
    assert busy[len(busy) // 2] < 300


async def test_notifications_nobody_reads_are_bounded_and_end_the_plugin(host, mark):
    plugin = await add(host, mark, max_buffered=1 << 20, respawn=False)
    await plugin.call("deaf")
    sent = 0
    while plugin.notify("news", "x" * 10_000):
        sent += 1
        assert sent < 1000
    assert 90 < sent < 120
    await all_gone(mark)
    with pytest.raises(plughost.PluginError, match="unread"):
        await plugin.call("echo", 1)


async def test_more_waiting_calls_than_allowed_are_refused_at_once(host, mark):
    plugin = await add(host, mark, max_in_flight=1, max_waiting=2)
    calls = [asyncio.create_task(plugin.call("silent", timeout=60)) for _ in range(3)]
    await until(lambda: seen(plugin).get("in_flight") == 1)
    with pytest.raises(plughost.Overloaded):
        for _ in range(2):
            calls.append(asyncio.create_task(plugin.call("silent", timeout=60)))
            await asyncio.sleep(0)
        await plugin.call("silent")
    for call in calls:
        call.cancel()
    await asyncio.gather(*calls, return_exceptions=True)


async def test_a_name_is_taken_once_and_free_again_after_removal(host, mark):
    await add(host, mark)
    with pytest.raises(plughost.InvalidSpec, match="already"):
        await host.add(parley(mark))
    await host.remove("p")
    await host.add(parley(mark))
