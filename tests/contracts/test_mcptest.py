"""Every promise of docs/contracts/mcptest.md, on real processes."""

from __future__ import annotations

import asyncio
import gc
import json
import signal
import sys
import threading
from pathlib import Path

import pytest

import plughost
from plughost.contracts.mcptest import (
    PROTOCOL_VERSION,
    InvalidJson,
    InvalidResponse,
    Mcptest,
    PluginCrashed,
    SpawnFailed,
    TimedOut,
)
from plughost.testkit import VirtualClock
from tests.support import PLUGINS, PYTHON, ROOT, all_gone, fds, plugin_process, processes, puppet, seen, until


def log_lines(path: Path) -> list[bytes]:
    return path.read_bytes().split(b"\n")[:-1] if path.exists() else []


# Wire


@pytest.mark.clause("MCPT-01", "MCPT-02", "MCPT-04")
async def test_requests_are_single_lines_with_ids_of_their_own(host, mark, tmp_path):
    log = tmp_path / "log"
    plugin = await host.add(puppet(mark, env={"log": str(log)}))
    for params in ({"text": "two\nlines é"}, [1, 2], None, "x"):
        assert await plugin.call("echo", params) == params
    await plugin.call("ping")
    requests = [json.loads(line) for line in log_lines(log)]
    assert [request["id"] for request in requests] == [1, 2, 3, 4, 5]
    assert requests[0] == {"method": "echo", "params": {"text": "two\nlines é"}, "id": 1}
    assert requests[2]["params"] is None
    assert requests[4] == {"method": "ping", "id": 5}


@pytest.mark.clause("MCPT-01")
async def test_a_raw_payload_written_over_several_lines_still_goes_out_as_one(host, mark):
    import msgspec

    plugin = await host.add(puppet(mark))
    assert await plugin.call("echo", msgspec.Raw(b'{\n "a":\n 1}')) == {"a": 1}


@pytest.mark.clause("MCPT-03", "MCPT-25")
async def test_any_method_reaches_the_plugin_which_alone_knows_its_own(host):
    echo = await host.add(ROOT / "plugins/echo-mcptest")
    for method in ("no/such method", "initialize", "", "é"):
        response = await Mcptest(echo).request(method)
        assert response.error is not None
        assert response.error["code"] == -32601


@pytest.mark.clause("MCPT-04", "MCPT-24")
@pytest.mark.parametrize("number", ['"$ID"', "$ID.0", "null", "true", "99", "[1]", "-1", "0"])
async def test_an_id_of_another_type_or_never_given_is_an_invalid_response(host, mark, number):
    plugin = await host.add(puppet(mark))
    with pytest.raises(InvalidResponse):
        await plugin.call("raw", ['{"id":%s,"result":1}\n' % number], timeout=5)
    assert await plugin.call("ping") == "pong"


@pytest.mark.clause("MCPT-05")
@pytest.mark.parametrize(
    ("members", "result"),
    [
        ('"result":null', None),
        ('"result":null,"error":null', None),
        ('"error":null,"result":5', 5),
        ('"result":{"a":[]}', {"a": []}),
    ],
)
async def test_a_result_counts_even_when_null(host, mark, members, result):
    plugin = await host.add(puppet(mark))
    assert await plugin.call("raw", ['{"id":$ID,%s}\n' % members], timeout=5) == result


@pytest.mark.clause("MCPT-05", "MCPT-06")
@pytest.mark.parametrize(
    "members",
    [
        '"x":1',
        '"error":null',
        '"result":1,"error":{"code":1,"message":"m"}',
        '"error":{"code":"1","message":"m"}',
        '"error":{"code":1.5,"message":"m"}',
        '"error":{"code":1}',
        '"error":{"message":"m"}',
        '"error":{"code":1,"message":5}',
        '"error":"m"',
        '"error":[]',
    ],
)
async def test_both_neither_or_a_misshapen_error_is_an_invalid_response(host, mark, members):
    plugin = await host.add(puppet(mark))
    with pytest.raises(InvalidResponse) as caught:
        await plugin.call("raw", ['{"id":$ID,%s}\n' % members], timeout=5)
    assert members.encode() in caught.value.head
    assert await plugin.call("ping") == "pong"


@pytest.mark.clause("MCPT-06", "MCPT-07", "MCPT-25")
@pytest.mark.parametrize(
    "error",
    [
        {"code": 7, "message": "mine"},
        {"code": -32601, "message": ""},
        {"code": -32700, "message": "parse"},
        {"code": -1, "message": "m", "data": {"deep": [1]}},
        {"code": 2**60, "message": "m", "data": None, "more": 1},
    ],
)
async def test_an_application_error_is_the_plugins_answer_not_a_host_error(host, mark, error):
    plugin = await host.add(puppet(mark))
    response = await Mcptest(plugin).request("error", error)
    assert (response.error, response.result) == (error, None)
    with pytest.raises(plughost.CallFailed) as caught:
        await plugin.call("error", error)
    assert caught.value.error == error


# Lifecycle


@pytest.mark.clause("MCPT-10")
async def test_an_unused_plugin_costs_no_process_no_thread_and_no_pipe(mark):
    async with plughost.Host() as host:
        before = fds(), set(threading.enumerate())
        await host.add(puppet(mark))
        assert fds() == before[0]
        assert before[1].issuperset(threading.enumerate())
        assert processes(mark) == []
    assert processes(mark) == []


@pytest.mark.clause("MCPT-10")
async def test_the_child_gets_four_variables_and_what_the_spec_lists(host, mark, monkeypatch):
    monkeypatch.setenv("SECRET_OF_THE_HOST", "x")
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.setenv("LANG", "C.UTF-8")
    plugin = await host.add(puppet(mark, env={"MINE": "1", "LANG": "de_DE"}))
    about = await plugin.call("about")
    assert set(about["env"]) <= {"PATH", "HOME", "LANG", "TERM", "MINE", "LC_CTYPE"}
    assert about["env"]["MINE"] == "1"
    assert about["env"]["LANG"] == "de_DE"
    assert about["env"]["TERM"] == "dumb"


@pytest.mark.clause("MCPT-11")
async def test_one_process_serves_all_calls(host, mark):
    plugin = await host.add(puppet(mark))
    await plugin.call("ping")
    first = plugin_process(mark)
    for _ in range(20):
        await plugin.call("ping")
    assert plugin_process(mark) == first


@pytest.mark.clause("MCPT-12")
async def test_one_request_is_outstanding_at_a_time_and_each_caller_gets_its_own_answer(host, mark, tmp_path):
    log = tmp_path / "log"
    plugin = await host.add(puppet(mark, env={"log": str(log)}))
    slow = asyncio.create_task(plugin.call("silent", timeout=60))
    await until(lambda: len(log_lines(log)) == 1)
    others = [asyncio.create_task(plugin.call("echo", n)) for n in range(20)]
    await asyncio.sleep(0.05)
    assert len(log_lines(log)) == 1, "a second request was written while one was outstanding"
    slow.cancel()
    assert await asyncio.gather(*others) == list(range(20))


@pytest.mark.clause("MCPT-12")
async def test_max_in_flight_lets_more_requests_out(host, mark):
    plugin = await host.add(puppet(mark, max_in_flight=3))
    answers = await asyncio.gather(*(plugin.call("batch", 3, timeout=10) for _ in range(3)))
    assert answers == ["batched"] * 3


@pytest.mark.clause("MCPT-12", "MCPT-23")
async def test_the_timeout_starts_when_the_request_is_written(slow_host, clock, mark, tmp_path):
    log = tmp_path / "log"
    plugin = await slow_host.add(puppet(mark, env={"log": str(log)}, call_timeout=30))
    await plugin.call("ping")
    first = asyncio.create_task(plugin.call("silent"))
    await until(lambda: len(log_lines(log)) == 2)
    second = asyncio.create_task(plugin.call("silent"))
    await asyncio.sleep(0)
    clock.advance(29)
    await asyncio.sleep(0)
    assert not first.done()
    clock.advance(1)
    with pytest.raises(TimedOut):
        await first
    await until(lambda: len(log_lines(log)) == 3)
    clock.advance(29)  # 59 s after it was asked for, 29 s after it was written
    await asyncio.sleep(0)
    assert not second.done()
    clock.advance(1)
    with pytest.raises(TimedOut):
        await second


@pytest.mark.clause("MCPT-12")
async def test_for_the_first_call_time_runs_from_the_spawn(slow_host, clock, mark):
    plugin = await slow_host.add(puppet(mark, call_timeout=30))
    first = asyncio.create_task(plugin.call("ping"))
    await asyncio.sleep(0)
    assert clock.pending == [30]
    assert await first == "pong"


@pytest.mark.clause("MCPT-12")
async def test_a_callers_own_timeout_also_counts_the_wait_for_its_turn(slow_host, clock, mark):
    plugin = await slow_host.add(puppet(mark))
    blocking = asyncio.create_task(plugin.call("silent"))
    waiting = asyncio.create_task(plugin.call("ping", timeout=5))
    await asyncio.sleep(0)
    clock.advance(5)
    with pytest.raises(TimedOut):
        await waiting
    assert not blocking.done()
    blocking.cancel()


@pytest.mark.clause("MCPT-13")
async def test_shutdown_closes_stdin_and_waits_for_the_plugin_to_finish(mark, tmp_path):
    done = tmp_path / "done"
    script = f"import sys, time\nfor line in sys.stdin: print('{{\"id\":1,\"result\":1}}', flush=True)\ntime.sleep(0.2)\nopen({str(done)!r}, 'w').close()"
    async with plughost.Host() as host:
        spec = plughost.PluginSpec(contract="mcptest", name="p", command=[*PYTHON, "-c", script, mark])
        plugin = await host.add(spec)
        await plugin.call("x")
        with host.events() as events:
            await plugin.stop()
            exited = [event async for event in _until_exit(events)]
    assert done.exists()
    assert exited[-1].exit_status == 0
    assert exited[-1].expected


async def _until_exit(events):
    while (event := await events.get()) is not None:
        yield event
        if type(event).__name__ == "Exited":
            return


@pytest.mark.clause("MCPT-13", "MCPT-14")
async def test_a_plugin_that_ignores_eof_is_killed_after_call_timeout(clock, mark):
    host = plughost.Host(clock=clock)
    plugin = await host.add(puppet(mark, call_timeout=30))
    await plugin.call("stubborn")
    stopping = asyncio.create_task(plugin.stop())
    await asyncio.sleep(0.05)
    clock.advance(29.9)
    await asyncio.sleep(0.05)
    assert processes(mark)
    assert not stopping.done()
    clock.advance(0.2)
    await stopping
    assert processes(mark) == []
    await host.close()


@pytest.mark.clause("MCPT-14")
@pytest.mark.parametrize("how", ["child", "double fork"])
async def test_descendants_that_try_to_get_away_end_with_the_plugin(host, mark, tmp_path, how):
    plugin = await host.add(puppet(mark))
    path = tmp_path / "escaped"
    await plugin.call("escape", {"path": str(path), "how": how})
    await until(lambda: path.exists() and path.read_text())
    await until(lambda: len(processes(mark)) == 4)  # launcher, keeper, plugin, escapee; none in between
    plugin.kill()
    await all_gone(mark)


@pytest.mark.clause("MCPT-14")
async def test_a_host_that_is_dropped_without_shutdown_takes_its_plugins_along(mark):
    before = fds()
    host = plughost.Host()
    plugin = await host.add(puppet(mark))
    await plugin.call("ping")
    assert processes(mark)
    del host, plugin
    gc.collect()
    await all_gone(mark)
    await until(lambda: fds() <= before)  # the loop still has to hear of the exit


@pytest.mark.clause("MCPT-14")
async def test_a_cancelled_host_takes_its_plugins_along(mark):
    started = asyncio.Event()

    async def embed():
        async with plughost.Host() as host:
            plugin = await host.add(puppet(mark))
            await plugin.call("stubborn")
            started.set()
            await plugin.call("silent")

    task = asyncio.create_task(embed())
    await started.wait()
    task.cancel()
    await asyncio.sleep(0)
    task.cancel()  # also while it is closing
    with pytest.raises(asyncio.CancelledError):
        await task
    await all_gone(mark)


# Failures


@pytest.mark.clause("MCPT-20", "MCPT-28")
@pytest.mark.parametrize(
    "kind", ["missing", "directory", "not executable", "no interpreter", "no program", "bare name"]
)
async def test_a_program_that_cannot_be_executed_is_a_spawn_failure(host, mark, tmp_path, kind):
    path = tmp_path / "program"
    if kind == "directory":
        path.mkdir()
    elif kind == "not executable":
        path.write_text("#!/bin/sh\n")
    elif kind == "no interpreter":
        path.write_text("#!/no/such/interpreter\n")
        path.chmod(0o755)
    elif kind == "no program":
        path.write_text("just text")
        path.chmod(0o755)
    command = "no-such-program-anywhere" if kind == "bare name" else str(path)
    plugin = await host.add(plughost.PluginSpec(contract="mcptest", name="p", command=[command]))
    for _ in range(2):
        with pytest.raises(SpawnFailed) as caught:
            await plugin.call("ping")
        assert caught.value.rpc_code == -32603
        assert command in caught.value.message
        assert caught.value.exit_status is None
    assert plugin.state == "Idle"


@pytest.mark.clause("MCPT-20")
async def test_after_a_spawn_failure_the_next_call_tries_again(host, mark, tmp_path):
    path = tmp_path / "plugin"
    plugin = await host.add(plughost.PluginSpec(contract="mcptest", name="p", command=[str(path), mark]))
    with pytest.raises(SpawnFailed):
        await plugin.call("ping")
    path.write_text(f"#!{PYTHON[0]}\n" + (PLUGINS / "puppet.py").read_text())
    path.chmod(0o755)
    assert await plugin.call("ping") == "pong"


@pytest.mark.clause("MCPT-20")
async def test_a_working_folder_that_is_not_there_is_a_spawn_failure_that_names_it(host):
    spec = plughost.PluginSpec(contract="mcptest", name="p", command=["/bin/true"], cwd="/no/such/folder")
    plugin = await host.add(spec)
    with pytest.raises(SpawnFailed, match="/no/such/folder"):
        await plugin.call("ping")


@pytest.mark.clause("MCPT-21", "MCPT-22", "MCPT-28")
@pytest.mark.parametrize(
    ("method", "params", "status"),
    [
        ("exit", 3, 3),
        ("exit", 0, 0),
        ("die", signal.SIGKILL, -9),
        ("die", signal.SIGSEGV, -11),
        ("half", None, 0),
    ],
)
async def test_a_crash_is_told_with_its_status_and_then_forever(host, mark, method, params, status):
    plugin = await host.add(puppet(mark))
    calls = [
        asyncio.create_task(plugin.call(method, params)),
        *(asyncio.create_task(plugin.call("ping")) for _ in "ab"),
    ]
    results = await asyncio.gather(*calls, return_exceptions=True)
    later = await asyncio.gather(plugin.call("ping"), return_exceptions=True)
    for error in [*results, *later]:
        assert isinstance(error, PluginCrashed)
        assert error.exit_status == status
        assert error.rpc_code == -32603
        assert error.code == "crashed"
    assert len({id(error) for error in results}) == 3
    assert processes(mark) == [], "the child was not reaped, or was started again"


@pytest.mark.clause("MCPT-21")
async def test_a_plugin_that_closes_its_stdout_has_crashed(host, mark):
    plugin = await host.add(puppet(mark))
    with pytest.raises(PluginCrashed, match="stdout"):
        await plugin.call("close_stdout")
    await all_gone(mark)


@pytest.mark.clause("MCPT-22")
async def test_a_new_host_starts_the_crashed_plugin_anew(mark):
    for _ in range(2):
        async with plughost.Host() as host:
            plugin = await host.add(puppet(mark))
            assert await plugin.call("ping") == "pong"
            with pytest.raises(PluginCrashed):
                await plugin.call("exit", 1)


@pytest.mark.clause("MCPT-23", "MCPT-28")
async def test_after_a_timeout_the_child_runs_on_and_its_late_answer_is_nobodys(slow_host, clock, mark):
    plugin = await slow_host.add(puppet(mark))
    await plugin.call("ping")
    pid = plugin_process(mark)
    late = asyncio.create_task(plugin.call("sleep", 0.2))
    await asyncio.sleep(0)
    clock.advance(30)
    with pytest.raises(TimedOut) as caught:
        await late
    assert caught.value.rpc_code == -32603
    assert await plugin.call("echo", "mine") == "mine"
    assert plugin_process(mark) == pid
    assert plugin.inspect()["instances"][0]["dropped"] == 1


@pytest.mark.clause("MCPT-24", "MCPT-28")
@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("not json\n", InvalidJson),
        ('{"id":$ID,"result":\n', InvalidJson),
        ('{"id":$ID,"result":NaN}\n', InvalidJson),
        ('{"id":$ID,"result":1} {"id":$ID}\n', InvalidJson),
        ('{"id":$ID,"result":"\xff"}\n', InvalidJson),
        ('\xef\xbb\xbf{"id":$ID,"result":1}\n', InvalidJson),
        ("[" * 100_000 + "\n", InvalidJson),
        ("[]\n", InvalidResponse),
        ("5\n", InvalidResponse),
        ("null\n", InvalidResponse),
        ('"x"\n', InvalidResponse),
        ("\n", InvalidResponse),
        (" \r\n", InvalidResponse),
        ('{"result":1}\n', InvalidResponse),
        ('{"id":777,"result":1}\n', InvalidResponse),
    ],
)
async def test_a_malformed_line_fails_the_call_and_the_next_one_works(host, mark, line, kind):
    plugin = await host.add(puppet(mark))
    with pytest.raises(kind) as caught:
        await plugin.call("raw", [line], timeout=5)
    assert type(caught.value) is kind
    assert caught.value.rpc_code == (-32700 if kind is InvalidJson else -32600)
    sent = line.encode("latin-1").replace(b"$ID", b"1").rstrip(b"\n")
    if b"777" not in sent:
        assert caught.value.head == sent[:4096]
    assert await plugin.call("ping") == "pong"


@pytest.mark.clause("MCPT-24")
async def test_the_true_answer_after_a_malformed_line_is_dropped_as_late(host, mark):
    plugin = await host.add(puppet(mark))
    with pytest.raises(InvalidJson):
        await plugin.call("raw", ["noise\n", '{"id":$ID,"result":"late"}\n'])
    assert await plugin.call("echo", "mine") == "mine"


@pytest.mark.clause("MCPT-24")
async def test_noise_with_nothing_outstanding_is_counted_and_told(host, mark):
    plugin = await host.add(puppet(mark))
    with host.events() as events:
        await plugin.call("raw", ['{"id":$ID,"result":1}\nnoise\n'])
        event = await events.get()
        while type(event).__name__ != "Dropped":
            event = await events.get()
    assert event.head == "noise"
    assert plugin.inspect()["instances"][0]["dropped"] == 1
    assert await plugin.call("ping") == "pong"


@pytest.mark.clause("MCPT-24")
async def test_with_several_outstanding_the_oldest_fails(host, mark):
    plugin = await host.add(puppet(mark, max_in_flight=3))
    oldest = asyncio.create_task(plugin.call("silent"))
    second = asyncio.create_task(plugin.call("silent"))
    third = asyncio.create_task(plugin.call("raw", ["noise\n", '{"id":$ID,"result":3}\n']))
    with pytest.raises(InvalidJson):
        await oldest
    assert await third == 3
    assert not second.done()
    second.cancel()


@pytest.mark.clause("MCPT-26")
async def test_stderr_is_log_and_a_flood_of_it_blocks_nothing(host, mark):
    plugin = await host.add(puppet(mark))
    assert await plugin.call("flood_stderr", 1600, timeout=60) == 1600  # 100 MiB
    assert await plugin.call("stderr", '{"id":2,"result":"not an answer"}\nlast words\n') is None
    with pytest.raises(PluginCrashed) as caught:
        await plugin.call("exit", 1)
    assert caught.value.stderr_tail.endswith("last words")
    assert len(caught.value.stderr_tail) <= 8192


@pytest.mark.clause("MCPT-27")
async def test_the_version_is_v1_and_unknown_members_are_tolerated(host, mark):
    assert PROTOCOL_VERSION == "v1"
    plugin = await host.add(puppet(mark))
    line = '{"jsonrpc":"2.0","new":{"x":[1]},"id":$ID,"result":1,"method":null}\n'
    assert await plugin.call("raw", [line]) == 1


@pytest.mark.clause("MCPT-30")
async def test_the_reference_plugin_works_as_it_is(host):
    source = (ROOT / "plugins/echo-mcptest/echo.py").read_text()
    code = [line for line in source.splitlines() if line.strip() and not line.strip().startswith('"""')]
    assert len(code) <= 40
    echo = await host.add(ROOT / "plugins/echo-mcptest")
    assert await echo.call("echo", {"text": "hi"}) == {"text": "hi"}
    assert await echo.call("ping") == "pong"
    response = await Mcptest(echo).request("echo")
    assert response.error is not None
    assert response.error["code"] == -32602
    with host.events() as events:
        await echo.stop()
        exited = [event async for event in _until_exit(events)][-1]
    assert exited.exit_status == 0


@pytest.mark.clause("MCPT-32")
async def test_a_line_past_the_limit_is_refused_while_it_is_read(host, mark):
    plugin = await host.add(puppet(mark, max_line=100_000))
    assert await plugin.call("big", 99_000) == "x" * 99_000
    with pytest.raises(InvalidResponse, match="longer than 100000") as caught:
        await plugin.call("long_line", 64 << 20)
    assert caught.value.head == b"z" * 256
    assert await plugin.call("ping", timeout=30) == "pong"


@pytest.mark.clause("MCPT-32")
async def test_the_default_limit_is_16_mib(host, mark):
    plugin = await host.add(puppet(mark))
    size = (16 << 20) - len('{"id":1,"result":""}')
    assert len(await plugin.call("big", size)) == size
    with pytest.raises(InvalidResponse, match=f"longer than {16 << 20}"):
        await plugin.call("big", size + 1)
    assert await plugin.call("ping") == "pong"


@pytest.mark.clause("MCPT-33")
async def test_shutdown_fails_open_calls_first_and_everything_after_it(mark):
    host = plughost.Host()
    plugin = await host.add(puppet(mark))
    await plugin.call("ping")
    open_call = asyncio.create_task(plugin.call("silent"))
    queued = asyncio.create_task(plugin.call("ping"))
    await asyncio.sleep(0)
    stopping = asyncio.create_task(plugin.stop())
    for call in (open_call, queued):
        with pytest.raises(plughost.Stopped):
            await call
    await stopping
    await plugin.stop()
    with pytest.raises(plughost.Stopped):
        await plugin.call("ping")
    await host.close()
    await host.close()
    assert processes(mark) == []


@pytest.mark.clause("MCPT-33")
async def test_a_plugin_stopped_before_its_first_call_never_starts(mark):
    host = plughost.Host()
    plugin = await host.add(puppet(mark))
    await plugin.stop()
    with pytest.raises(plughost.Stopped):
        await plugin.call("ping")
    assert processes(mark) == []
    await host.close()


async def test_a_virtual_clock_never_fires_early(clock: VirtualClock):
    fired = []
    clock.call_at(clock.time() + 2, lambda: fired.append(clock.time()))
    clock.advance(1.999)
    assert fired == []
    clock.advance(1)
    assert fired == [1002.0]


@pytest.mark.parametrize(
    "wrong", [{"command": ["a\0b"]}, {"cwd": "a\0b"}, {"env": {"A": "a\0b"}}, {"env": {"A=B": "c"}}]
)
async def test_what_no_process_can_be_given_is_refused_before_there_is_one(host, wrong):
    spec = plughost.PluginSpec(**{"contract": "mcptest", "name": "x", "command": ["true"], **wrong})
    with pytest.raises(plughost.InvalidSpec):
        await host.add(spec)
    assert not host.plugins


async def ended_after(plugin, clock, mark, seconds):
    """It is ended by force when so many seconds have passed, and not before."""
    stopping = asyncio.create_task(plugin.stop())
    await until(lambda: seen(plugin)["state"] == "ShuttingDown")
    clock.advance(seconds - 0.1)
    await asyncio.sleep(0.05)
    assert processes(mark)
    assert not stopping.done()
    clock.advance(0.2)
    await asyncio.wait_for(stopping, 30)
    await all_gone(mark)


@pytest.mark.clause("MCPT-13")
async def test_a_plugin_that_left_a_call_unanswered_has_two_seconds_to_end(slow_host, clock, mark):
    plugin = await slow_host.add(puppet(mark))
    await plugin.call("ping")
    call = asyncio.create_task(plugin.call("sleep", 600, timeout=1))
    await until(lambda: seen(plugin)["in_flight"])
    clock.advance(1.1)
    with pytest.raises(plughost.Timeout):
        await call
    await ended_after(plugin, clock, mark, 2.0)


@pytest.mark.clause("MCPT-13")
async def test_a_plugin_whose_caller_has_gone_before_it_answered_has_two_seconds_to_end(
    slow_host, clock, mark
):
    plugin = await slow_host.add(puppet(mark))
    await plugin.call("ping")
    call = asyncio.create_task(plugin.call("sleep", 600))
    await until(lambda: seen(plugin)["in_flight"])
    call.cancel()
    await asyncio.wait([call])
    await ended_after(plugin, clock, mark, 2.0)


@pytest.mark.clause("MCPT-13")
async def test_a_plugin_that_said_something_unreadable_in_place_of_an_answer_has_two_seconds_to_end(
    slow_host, clock, mark
):
    deaf = "input(); print('[]', flush=True); import time; time.sleep(600)"
    command = [sys.executable, "-c", deaf, mark]
    plugin = await slow_host.add(plughost.PluginSpec(contract="mcptest", name="deaf", command=command))
    with pytest.raises(InvalidResponse):
        await plugin.call("ping")
    await ended_after(plugin, clock, mark, 2.0)


@pytest.mark.clause("MCPT-13")
@pytest.mark.parametrize("answers", ["late", "another"])
async def test_a_plugin_that_answers_again_after_a_missed_deadline_has_its_whole_time_to_end(
    slow_host, clock, mark, tmp_path, answers
):
    go = tmp_path / "go"
    plugin = await slow_host.add(puppet(mark, max_in_flight=2))
    method, params = ("until", str(go)) if answers == "late" else ("silent", None)
    call = asyncio.create_task(plugin.call(method, params, timeout=1))
    await until(lambda: seen(plugin).get("in_flight"))
    clock.advance(1.1)
    with pytest.raises(plughost.Timeout):
        await call
    if answers == "late":
        go.touch()
        await until(lambda: seen(plugin)["dropped"] == 1)
    await plugin.call("stubborn")
    await ended_after(plugin, clock, mark, 30.0)


@pytest.mark.clause("MCPT-13")
async def test_a_host_may_cap_the_grace_of_its_plugins(clock, mark):
    async with plughost.Host(clock=clock, max_grace=3.0) as host:
        plugin = await host.add(puppet(mark))
        await plugin.call("stubborn")
        await ended_after(plugin, clock, mark, 3.0)


async def test_a_host_that_is_killed_ends_its_plugins_by_force_and_takes_no_others(clock, mark):
    async with plughost.Host(clock=clock) as host:
        plugin = await host.add(puppet(mark))
        await plugin.call("stubborn")
        host.kill()
        await all_gone(mark)
        with pytest.raises(plughost.Stopped, match="this host is closed"):
            await host.add(puppet(mark, name="another"))


@pytest.mark.clause("MCPT-05", "MCPT-25")
async def test_a_result_of_null_beside_an_error_object_is_the_error(host):
    command = [*PYTHON, str(PLUGINS / "wild_mcptest.py")]
    plugin = await host.add(plughost.PluginSpec(contract="mcptest", name="wild", command=command))
    assert await plugin.call("equals") == {"matched": "equals"}
    response = await Mcptest(plugin).request("fail")
    assert (response.error, response.result) == ({"code": 7, "message": "as you asked"}, None)
    with pytest.raises(plughost.CallFailed, match="error 7: as you asked"):
        await plugin.call("fail")
