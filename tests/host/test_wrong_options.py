"""Wrong options are refused at the edge of the host: NaN, for one, would disturb the timers of others."""

from __future__ import annotations

import asyncio
import math

import pytest

import plughost
import plughost.sync
from tests.support import puppet, until

WRONG = [math.nan, -1.0, "2"]


@pytest.mark.parametrize("wrong", WRONG)
async def test_a_call_with_a_wrong_timeout_is_refused_and_starts_nothing(host, mark, wrong):
    plugin = await host.add(puppet(mark))
    with pytest.raises(plughost.InvalidSpec, match="timeout is .+; expected a number of seconds"):
        await plugin.call("echo", 1, timeout=wrong)
    assert plugin.state == "Idle"


async def test_an_infinite_timeout_is_no_timeout(slow_host, clock, mark):
    plugin = await slow_host.add(puppet(mark, max_in_flight=8))
    assert await plugin.call("ping") == "pong"
    endless = asyncio.create_task(plugin.call("silent", timeout=math.inf))
    usual = asyncio.create_task(plugin.call("silent"))
    await until(lambda: plugin.inspect()["instances"][0]["in_flight"] == 2)
    clock.advance(60.0)
    with pytest.raises(plughost.Timeout):
        await usual
    assert not endless.done()
    endless.cancel()


@pytest.mark.parametrize("wrong", WRONG)
async def test_a_host_refuses_a_wrong_max_grace(wrong):
    with pytest.raises(plughost.InvalidSpec, match="max_grace is .+; expected a number of seconds"):
        plughost.Host(max_grace=wrong)


@pytest.mark.parametrize("wrong", WRONG)
def test_the_synchronous_host_refuses_wrong_timeouts(mark, wrong):
    with plughost.sync.Host() as host:
        plugin = host.add(puppet(mark))
        with pytest.raises(plughost.InvalidSpec, match="timeout is"):
            plugin.call("echo", 1, timeout=wrong)
        with host.events() as events, pytest.raises(plughost.InvalidSpec, match="timeout is"):
            events.get(timeout=wrong)


async def test_a_host_refuses_an_unknown_launch_mode():
    with pytest.raises(plughost.InvalidSpec, match="'pidsn'; expected one of auto, pidns, subreaper"):
        plughost.Host(launch_mode="pidsn")
