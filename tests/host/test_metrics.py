"""What a host measures of its plugins: calls, latencies, restarts, memory."""

from __future__ import annotations

import asyncio
import os
import signal

import pytest

import plughost
from tests.support import plugin_process, puppet, until


async def test_calls_failures_and_cancelled_calls_are_counted(host, mark):
    plugin = await host.add(puppet(mark))
    for number in range(5):
        assert await plugin.call("echo", number) == number
    with pytest.raises(plughost.CallFailed):
        await plugin.call("error", {"code": 1, "message": "no"})
    hanging = asyncio.ensure_future(plugin.call("silent"))
    await until(lambda: plugin.inspect()["instances"][0]["in_flight"])
    hanging.cancel()
    await asyncio.gather(hanging, return_exceptions=True)
    seen = plugin.inspect()["metrics"]
    assert (seen["calls"], seen["failures"], seen["cancelled"]) == (6, 1, 1)
    assert 0 < seen["p50"] <= seen["p99"] < 60
    assert seen["last_error"]["code"] == plughost.CallFailed.code


async def test_a_killed_process_is_a_restart_a_log_line_and_the_last_error(host, mark):
    plugin = await host.add(puppet(mark))
    await plugin.call("echo", 1)
    first = plugin.metrics.started_at
    os.kill(plugin_process(mark), signal.SIGKILL)
    await until(lambda: plugin.metrics.started_at is None)
    assert plugin.metrics.restarts == 0
    await plugin.reload()
    await plugin.call("echo", 1)
    assert plugin.metrics.restarts == 1
    assert plugin.metrics.started_at > first
    assert plugin.metrics.last_error.code == "crashed"
    (line,) = host.service("logs").recent("puppet")
    assert (line.level, line.source) == ("error", "failed")
    assert "SIGKILL" in line.message


async def test_a_reload_is_no_failure_and_the_uptime_is_of_the_new_process(host, mark):
    plugin = await host.add(puppet(mark))
    await plugin.call("echo", 1)
    first = plugin.metrics.started_at
    await plugin.reload()
    await until(lambda: len(plugin.inspect()["instances"]) == 1)
    assert plugin.metrics.started_at > first
    assert (plugin.metrics.restarts, plugin.metrics.last_error, host.service("logs").recent("puppet")) == (
        0,
        None,
        [],
    )


async def test_memory_and_processor_time_are_those_of_its_processes(host, mark):
    plugin = await host.add(puppet(mark))
    assert await plugin.usage() == {"memory": None, "cpu": None}
    await plugin.call("echo", 1)
    usage = await plugin.usage()
    assert usage["memory"] > 1 << 20
    assert usage["cpu"] >= 0
