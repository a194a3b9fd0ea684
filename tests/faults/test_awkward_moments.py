"""Things that happen at the wrong moment: no caller waits forever, nothing is left running."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import subprocess
import sys
import textwrap
import time

import msgspec
import pytest

import plughost
from plughost.contracts.mcptest.contract import InvalidResponse, Mcptest, PluginCrashed, TimedOut
from plughost.contracts.rune.contract import ExecutionError, MalformedResponse, Rune
from plughost.engine import instance
from tests.support import ROOT, all_gone, fds, processes, puppet, rune_puppet, seen, until


async def waiting_beside(plugin, gate):
    """A call in flight until the gate is there, and, once it is, room for another that waits."""
    blocking = asyncio.create_task(plugin.call("until", str(gate)))
    await until(lambda: seen(plugin).get("in_flight") == 1)
    return blocking


async def test_a_call_cancelled_after_it_moved_in_a_reload_takes_nobody_along(host, mark, tmp_path):
    plugin = await host.add(puppet(mark))
    one = await waiting_beside(plugin, tmp_path / "gate")
    two = asyncio.create_task(plugin.call("silent"))
    await until(lambda: seen(plugin)["waiting"] == 1)
    await plugin.reload()
    two.cancel()
    (tmp_path / "gate").touch()
    assert await asyncio.wait_for(one, 30) == "slept"
    assert await asyncio.wait_for(plugin.call("ping"), 30) == "pong"


async def test_params_changed_while_they_wait_are_sent_as_they_were(host, mark, tmp_path):
    plugin = await host.add(puppet(mark))
    await waiting_beside(plugin, tmp_path / "gate")
    params = {"a": 1}
    two = asyncio.create_task(plugin.call("echo", params))
    three = asyncio.create_task(plugin.call("ping"))
    await until(lambda: seen(plugin)["waiting"] == 2)
    params["b"] = object()
    await plugin.reload()
    assert await asyncio.wait_for(two, 30) == {"a": 1}
    assert await asyncio.wait_for(three, 30) == "pong"


@pytest.mark.parametrize("cancelled", [False, True])
async def test_a_host_that_closes_while_a_plugin_is_removed_leaves_nothing(mark, cancelled):
    host = plughost.Host()
    plugin = await host.add(puppet(mark, call_timeout=0.5))
    await plugin.call("stubborn", timeout=30)
    removing = asyncio.create_task(host.remove("puppet"))
    await asyncio.sleep(0.05)
    if cancelled:
        removing.cancel()
    await host.close()
    assert processes(mark) == []
    await asyncio.wait([removing], timeout=30)
    assert removing.done()
    with pytest.raises(plughost.InvalidSpec):
        await host.remove("nobody")


async def test_a_caller_that_ends_the_program_at_the_plugins_end_does_not_hang_it(mark):
    plugin = textwrap.dedent(
        r"""
        import sys, os, json, fcntl
        fcntl.fcntl(1, 1031, 1 << 20)  # F_SETPIPE_SZ: all of it is in the pipe at the exit
        sys.stdin.readline(); os.write(1, b'{"id":1,"result":1}\n')
        number = json.loads(sys.stdin.readline())["id"]
        os.write(1, b'{"id":%d,"result":"%s"}\n' % (number, b"x" * 300000)); os._exit(0)
        """
    )
    program = f"""
    import asyncio, sys, time, plughost
    async def main():
        async with plughost.Host() as host:
            spec = plughost.PluginSpec(contract="mcptest", name="x", command=[sys.executable, "-c", {plugin!r}, {mark!r}])
            plugin = await host.add(spec)
            await plugin.call("a")
            async def caller():
                await plugin.call("go")
                sys.exit(7)
            task = asyncio.create_task(caller())
            await asyncio.sleep(0)
            time.sleep(0.5)
            await asyncio.sleep(9)
    asyncio.run(main())
    """
    ran = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], timeout=20, capture_output=True)
    assert ran.returncode == 7, ran.stderr
    await all_gone(mark)


async def test_callers_behind_one_that_never_gets_through_still_time_out(slow_host, clock, mark):
    """The plugin does not read: nothing can be written, and yet time runs for whose turn it is."""
    plugin = await slow_host.add(puppet(mark, call_timeout=30))
    await plugin.call("deaf")
    calls = [asyncio.create_task(plugin.call("echo", "x" * 400_000)) for _ in range(3)]
    await asyncio.sleep(0.05)
    for call in calls:
        clock.advance(30)
        with pytest.raises(TimedOut):
            await asyncio.wait_for(call, 30)


async def test_callers_of_a_process_that_is_never_executed_time_out_one_after_the_other(clock, tmp_path):
    stuck = tmp_path / "stuck"
    stuck.write_text("#!/bin/sh\nexec sleep 60\n")
    stuck.chmod(0o755)
    async with plughost.Host(clock=clock, launcher=(str(stuck),)) as host:
        plugin = await host.add(puppet(call_timeout=30))
        calls = [asyncio.create_task(plugin.call("ping")) for _ in range(3)]
        await asyncio.sleep(0.02)
        for call in calls:
            clock.advance(30)
            with pytest.raises(TimedOut):
                await asyncio.wait_for(call, 30)
        plugin.kill()


@pytest.mark.parametrize("forever", [float("inf"), 1e300, 1e12])
async def test_times_past_all_bounds_are_just_long(mark, forever):
    async with plughost.Host() as host:
        plugin = await host.add(puppet(mark, call_timeout=forever))
        assert await plugin.call("ping") == "pong"
        assert await plugin.call("echo", 1, timeout=forever) == 1
        assert await plugin.call("ping", timeout=30) == "pong"
    assert processes(mark) == []


@pytest.mark.parametrize(
    "wrong",
    [
        {"command": []},
        {"command": [""]},
        {"command": ["x\0"]},
        {"command": [1]},
        {"command": ["x"], "env": {"A": 1}},
        {"command": ["x"], "env": {"A=B": "1"}},
        {"command": ["x"], "env": {"": "1"}},
        {"command": ["x"], "env": {"A": "\0"}},
        {"command": ["x"], "cwd": "\0"},
    ],
)
async def test_a_spec_no_process_can_have_is_refused_at_once(host, wrong):
    with pytest.raises(plughost.InvalidSpec):
        await host.add(plughost.PluginSpec(contract="mcptest", name="p", **wrong))


async def test_the_plugins_own_error_counts_however_long_its_end_takes(host, mark, tmp_path):
    script = {
        "response": {"status": "error", "error": {"code": "c", "message": "no"}},
        "after_handshake": f"until {tmp_path}/go",
        "after_response": "exit 0",
    }
    plugin = await host.add(rune_puppet(script, mark=mark))
    call = asyncio.create_task(plugin.call("echo"))
    await until(lambda: seen(plugin).get("state") == "Running")
    launcher = seen(plugin)["pid"]
    os.kill(launcher, signal.SIGSTOP)
    (tmp_path / "go").touch()
    await asyncio.sleep(0.5)
    os.kill(launcher, signal.SIGCONT)
    with pytest.raises(ExecutionError):
        await call


async def test_an_exit_that_is_heard_of_late_is_told_as_the_exit_it_was(host, mark, monkeypatch):
    """The closed pipe is a sign of it, and on a busy machine the only one for a while."""
    monkeypatch.setattr(instance, "EXIT_STATUS_TIMEOUT", 0)
    monkeypatch.setattr(instance, "KILL_TIMEOUT", 60)
    plugin = await host.add(puppet(mark))
    await plugin.call("ping")
    launcher = seen(plugin)["pid"]
    os.kill(launcher, signal.SIGSTOP)
    call = asyncio.create_task(plugin.call("exit", 7))
    await until(lambda: plugin._current._cause is not None and processes(mark) == [launcher])
    os.kill(launcher, signal.SIGCONT)
    with pytest.raises(PluginCrashed, match="it exited with code 7") as caught:
        await call
    assert caught.value.exit_status == 7


async def test_refused_calls_leave_no_instances_and_name_the_plugin(host):
    plugin = await host.add(rune_puppet())
    for _ in range(20):
        with pytest.raises(plughost.InvalidSpec) as caught:
            await plugin.call(" ")
        assert caught.value.plugin == "puppet"
    assert plugin.inspect()["instances"] == []


async def test_a_process_that_cannot_be_watched_is_not_left_running(host, mark, monkeypatch):
    def no_room(pid):
        raise OSError(24, "Too many open files")

    plugin = await host.add(puppet(mark))
    monkeypatch.setattr(os, "pidfd_open", no_room)
    with pytest.raises(plughost.LaunchFailed):
        await plugin.call("ping")
    await all_gone(mark)


@pytest.mark.parametrize("room", [0, 1, 2])
async def test_nor_one_that_the_loop_has_no_room_for(host, mark, monkeypatch, room):
    plugin = await host.add(puppet(mark))
    loop = asyncio.get_running_loop()
    add_reader, before, asked = loop.add_reader, fds(), []

    def full(fd, *call):
        asked.append(fd)
        if len(asked) > room:
            raise OSError(28, "No space left on device")
        add_reader(fd, *call)

    monkeypatch.setattr(loop, "add_reader", full)
    with pytest.raises(plughost.LaunchFailed) as caught:
        await plugin.call("ping")
    assert "max_user_watches" in caught.value.hint
    monkeypatch.undo()
    await all_gone(mark)
    assert fds() == before


def test_a_host_dropped_with_its_loop_gives_everything_back(mark):
    async def main():
        host = plughost.Host()
        plugin = await host.add(puppet(mark))
        await plugin.call("ping")

    def zombies():
        found = 0
        for name in os.listdir("/proc"):
            try:
                fields = open(f"/proc/{name}/stat").read().rsplit(")", 1)[1].split() if name.isdigit() else []
            except OSError:
                continue
            found += fields[:2] == ["Z", str(os.getpid())]
        return found

    gc.collect()
    before = zombies()
    for _ in range(3):
        asyncio.run(main())
        gc.collect()
    assert zombies() <= before
    asyncio.run(all_gone(mark))


async def test_a_number_out_of_range_is_an_error_of_the_plugins(host, mark):
    plugin = await host.add(puppet(mark))
    line = ['{"id":$ID,"result":1e999}\n']
    with pytest.raises(InvalidResponse) as caught:
        await plugin.call("raw", line)
    assert (caught.value.plugin, caught.value.head) == ("puppet", b"1e999")
    with pytest.raises(InvalidResponse):
        await Mcptest(plugin).request("raw", line)
    with pytest.raises(InvalidResponse):
        await plugin.call("raw", ['{"id":$ID,"error":{"code":1,"message":"m","data":1e999}}\n'])
    assert bytes(await plugin.call("raw", line, type=msgspec.Raw)) == b"1e999"
    await host.remove("puppet")
    tool = await host.add(
        rune_puppet({"response": '{"type":"response","request_id":"$ID","status":"ok","output":1e999}\n'})
    )
    for call in (tool.call("echo"), Rune(tool).execute("echo")):
        with pytest.raises(MalformedResponse):
            await call


async def test_a_result_that_is_not_of_the_wanted_type_is_an_error_of_the_plugins(host, mark):
    plugin = await host.add(puppet(mark))
    assert await plugin.call("echo", [1], type=list[int]) == [1]
    with pytest.raises(InvalidResponse):
        await plugin.call("echo", ["x"], type=list[int])


async def test_an_answer_nobody_asked_for_is_attached_to_its_error(host, mark):
    plugin = await host.add(puppet(mark))
    with pytest.raises(InvalidResponse) as caught:
        await plugin.call("raw", ['{"id":777,"result":1}\n'])
    assert caught.value.head == b'{"id":777,"result":1}'


async def test_a_plugin_that_closed_its_stdin_is_found_out_under_any_load(host, mark):
    plugin = await host.add(puppet(mark))
    await plugin.call("close_stdin")
    with pytest.raises(PluginCrashed):
        for _ in range(100):
            try:
                await plugin.call("ping", timeout=0.05)
            except TimedOut:
                continue
    await all_gone(mark)


async def test_a_small_limit_for_answers_is_none_for_requests(host, mark):
    plugin = await host.add(puppet(mark, max_line=100))
    with pytest.raises(InvalidResponse):
        await plugin.call("echo", "x" * 200)
    assert await plugin.call("ping") == "pong"


async def test_a_caller_that_ends_the_program_does_not_keep_others_from_their_answers(mark):
    program = f"""
    import asyncio, sys
    sys.path.insert(0, {str(ROOT)!r})
    import plughost
    from tests.support import puppet
    async def main():
        async with plughost.Host() as host:
            plugin = await host.add(puppet({mark!r}, max_in_flight=8))
            await plugin.call("ping")
            tasks = []
            async def caller(n):
                await plugin.call("batch", 3)
                if n == 2:
                    tasks[1].cancel()
                    raise SystemExit(5)
            tasks += [asyncio.create_task(caller(n)) for n in range(3)]
            await asyncio.gather(*tasks)
    asyncio.run(main())
    """
    ran = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], timeout=20, capture_output=True)
    assert ran.returncode == 5, ran.stderr
    await all_gone(mark)


async def test_many_cancelled_callers_cost_little(host, mark, tmp_path):
    plugin = await host.add(puppet(mark))
    await waiting_beside(plugin, tmp_path / "gate")
    calls = [asyncio.create_task(plugin.call("ping")) for _ in range(20_000)]
    await asyncio.sleep(0)
    start = time.process_time()
    for call in reversed(calls):
        call.cancel()
    await asyncio.gather(*calls, return_exceptions=True)
    assert time.process_time() - start < 2.0


async def test_events_of_a_closed_host_end(mark):
    host = plughost.Host()
    await host.close()
    assert [event async for event in host.events()] == []
    with pytest.raises(plughost.Stopped):
        await host.add(puppet(mark))


async def test_secrets_are_in_no_repr(host):
    plugin = await host.add(puppet(env={"TOKEN": "hunter2"}))
    kept = [plugin.spec, plugin._resolved, plugin._confinement, plugin._open_link]
    assert "hunter2" not in repr([plugin, *kept, plugin.inspect()])


async def test_mcptest_plugins_are_sent_no_notifications(host, mark):
    plugin = await host.add(puppet(mark))
    assert plugin.notify("news") is False
    await plugin.call("ping")
    with pytest.raises(plughost.InvalidSpec):
        plugin.notify("news")


async def test_a_call_whose_coroutine_is_closed_is_withdrawn(host, mark):
    plugin = await host.add(rune_puppet({"after_handshake": "hang"}, mark=mark))
    call = plugin.call("echo")
    call.send(None)
    await until(lambda: seen(plugin).get("state") == "Running")
    call.close()
    await all_gone(mark)


async def test_a_launcher_that_does_not_react_is_ended_itself(host, mark):
    plugin = await host.add(puppet(mark))
    await plugin.call("ping")
    os.kill(seen(plugin)["pid"], signal.SIGSTOP)  # it can be told nothing now
    plugin.kill()
    await asyncio.wait_for(plugin.stop(), 30)
    await all_gone(mark)
