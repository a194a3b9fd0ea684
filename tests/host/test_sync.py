"""What is special about the host without an event loop; its promises are those of the other one."""

from __future__ import annotations

import asyncio
import gc
import os
import subprocess
import sys
import textwrap
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

import plughost
import plughost.sync
from plughost.contracts.mcptest.contract import Mcptest
from plughost.events import StateChanged
from tests.faults.test_cancellation import parley
from tests.support import ROOT, all_gone, processes, puppet, until


@pytest.fixture
def host(mark):
    with plughost.sync.Host() as host:
        yield host
    assert not processes(mark)


def test_a_call_waits_for_its_result_and_raises_what_the_other_host_raises(host, mark):
    plugin = host.add(puppet(mark))
    assert plugin.call("echo", {"text": "hi"}, timeout=5) == {"text": "hi"}
    assert (plugin.state, plugin.name, host.plugins["puppet"].call("ping")) == ("Running", "puppet", "pong")
    with pytest.raises(plughost.CallFailed):
        plugin.call("error", {"code": 1, "message": "no"})
    with pytest.raises(plughost.Timeout):
        plugin.call("silent", timeout=0.01)
    with pytest.raises(plughost.InvalidSpec):
        host.add(puppet(mark))


def test_many_threads_share_one_host(host, mark):
    plugin = host.add(puppet(mark, max_in_flight=64))
    with ThreadPoolExecutor(32) as pool:
        assert list(pool.map(lambda n: plugin.call("echo", n), range(500))) == list(range(500))


def test_many_calls_are_under_way_without_a_thread_each(host, mark):
    plugin = host.add(puppet(mark, max_in_flight=64))
    before = set(threading.enumerate())
    calls = [plugin.submit("echo", n) for n in range(500)]
    assert before.issuperset(threading.enumerate())
    assert [call.result(timeout=20) for call in calls] == list(range(500))
    silent = plugin.submit("silent")
    assert silent.cancel()
    assert plugin.call("ping") == "pong"


def test_typed_views_and_everything_else_of_the_async_api(host, mark):
    plugin = host.add(puppet(mark))
    response = host.run(Mcptest(plugin.asynchronous).request("ping"))
    assert response.result == "pong"


def test_a_service_is_an_ordinary_function_that_may_call_the_plugin_that_asks(host, mark):
    seen = []

    def add(plugin, params):
        seen.append(threading.current_thread() is not threading.main_thread())
        return params.a + plugin.call("echo", params.b)

    host.provide("add", add)
    plugin = host.add(parley(mark))
    reply = plugin.call("ask", {"method": "host/add", "params": {"a": 40, "b": 2}})
    assert (reply["result"], seen) == (42, [True])


def test_reload_notify_remove(host, mark):
    plugin = host.add(parley(mark))
    assert not plugin.notify("news")
    plugin.start()
    assert plugin.notify("news")
    plugin.reload()
    assert (plugin.generation, plugin.call("echo", 1)) == (2, 1)
    host.remove("parley")
    assert host.plugins == {}
    with pytest.raises(plughost.Stopped):
        plugin.call("echo", 1)


def test_events_are_iterated_or_waited_for(mark):
    host = plughost.sync.Host()
    with host.events(only=StateChanged) as events:
        with pytest.raises(TimeoutError):
            events.get(timeout=0.01)
        host.add(puppet(mark)).call("ping")
        event = events.get(timeout=5)
        assert isinstance(event, StateChanged)
        closing = threading.Timer(0.05, host.close)
        closing.start()
        assert [type(event).__name__ for event in events][-1] == "StateChanged"
        closing.join()


def test_a_closed_host_says_so(mark):
    with plughost.sync.Host() as host:
        plugin = host.add(puppet(mark))
        plugin.call("ping")
    host.close()
    for use in (lambda: plugin.call("ping"), lambda: host.add(puppet(mark)), plugin.inspect):
        with pytest.raises(plughost.Stopped):
            use()


def test_callers_in_other_threads_are_told_that_it_closes(mark):
    with plughost.sync.Host() as host, ThreadPoolExecutor(4) as pool:
        plugin = host.add(puppet(mark))
        plugin.call("ping")
        calls = [pool.submit(plugin.call, "silent") for _ in range(4)]
        while plugin.inspect()["instances"][0]["waiting"] < 3:
            time.sleep(0.001)
        plugin.kill()
        host.close()
        for call in calls:
            with pytest.raises(plughost.Stopped):
                call.result(timeout=10)


def test_its_own_thread_may_not_wait_for_itself(host, mark):
    plugin = host.add(puppet(mark))

    async def inside() -> None:
        plugin.call("ping")

    with pytest.raises(RuntimeError, match="async API"):
        host.run(inside())


def test_a_fork_has_no_part_in_its_parents_host(host, mark):
    plugin = host.add(puppet(mark))
    plugin.call("ping")
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            plugin.call("ping")
        except plughost.Stopped as error:
            os.write(write, error.hint.encode())
        host.close()
        os._exit(0)
    os.waitpid(child, 0)
    assert os.read(read, 100) == b"create a new host in this process"
    os.close(read)
    os.close(write)
    assert plugin.call("ping") == "pong"


async def test_a_host_that_nobody_holds_ends_its_plugins(mark):
    def use() -> None:
        host = plughost.sync.Host()
        assert host.add(puppet(mark)).call("ping") == "pong"

    await asyncio.to_thread(use)
    gc.collect()
    await all_gone(mark)


async def test_the_garbage_collector_may_end_it_in_its_own_thread(mark):
    def use() -> None:
        host = plughost.sync.Host()
        host.add(puppet(mark)).call("ping")
        kept = [host]

        async def drop() -> None:
            kept.clear()

        run = host.run
        del host
        run(drop())

    await asyncio.to_thread(use)
    gc.collect()
    await all_gone(mark)
    await until(lambda: not any(thread.name == "plughost" for thread in threading.enumerate()))


PROGRAM = f"""
import sys, signal, threading, os
sys.path.insert(0, {str(ROOT)!r})
import plughost.sync
from tests.support import puppet
host = plughost.sync.Host()
plugin = host.add(puppet(sys.argv[1]))
plugin.call("ping")
"""


def program(body: str, mark: str) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, "-c", PROGRAM + textwrap.dedent(body), mark]
    return subprocess.run(words, capture_output=True, text=True, timeout=30)


async def test_a_program_that_forgets_its_host_ends_and_leaves_nothing(mark):
    ran = program("print('done')", mark)
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "done\n", "")
    await all_gone(mark)


async def test_ctrl_c_takes_a_waiting_call_back(mark):
    ran = program(
        """
        try:
            threading.Timer(0.2, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
            plugin.call("silent")
        except KeyboardInterrupt:
            print("taken back")
        print(plugin.call("ping"), plugin.inspect()["instances"][0]["in_flight"])
        """,
        mark,
    )
    assert ran.stdout == "taken back\npong 0\n", ran.stderr
    await all_gone(mark)


async def test_ctrl_c_while_it_closes_ends_plugins_by_force(mark):
    ran = program(
        """
        plugin.call("stubborn")
        try:
            threading.Timer(0.2, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
            host.close()
        except KeyboardInterrupt:
            print("closed by force")
        """,
        mark,
    )
    assert ran.stdout == "closed by force\n", ran.stderr
    await all_gone(mark)
