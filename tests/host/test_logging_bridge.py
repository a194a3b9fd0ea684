"""Events of a host in the standard library's logging."""

from __future__ import annotations

import asyncio
import logging

import pytest

import plughost
from plughost.events import AT_ONCE, Exited, Logged
from tests.support import puppet


async def test_a_crash_is_logged_as_an_error_with_its_event(host, caplog):
    caplog.set_level(logging.DEBUG, logger="plughost")
    async with plughost.LoggingBridge(host):
        plugin = await host.add(puppet())
        with pytest.raises(plughost.Crashed):
            await plugin.call("exit", 3)
        await host.close()
    (crash,) = [record for record in caplog.records if isinstance(record.event, Exited)]
    assert (crash.levelname, crash.plugin, crash.name) == ("ERROR", plugin.name, "plughost")
    assert crash.getMessage() == f"{plugin.name}: its process has ended with status 3"


async def test_a_line_of_a_plugin_stays_one_line(host, caplog):
    caplog.set_level(logging.INFO, logger="plughost")
    async with plughost.LoggingBridge(host):
        plugin = await host.add(puppet())
        await plugin.call("stderr", "evil \x1b[2J\r2026-01-01 ERROR faked\n")
        await host.close()
    (line,) = [record for record in caplog.records if isinstance(record.event, Logged)]
    assert "\x1b" not in line.getMessage()
    assert "\r" not in line.getMessage()


async def test_lost_events_are_counted(host, caplog):
    caplog.set_level(logging.DEBUG, logger="plughost")
    logger = logging.getLogger("plughost.lossy")
    async with plughost.LoggingBridge(host, logger, limit=2):
        for number in range(5):
            host.context.events.publish(
                Logged(plugin="p", generation=1, at=0.0, level="info", message=f"line {number}")
            )
    messages = [record.getMessage() for record in caplog.records]
    assert messages == ["3 events were lost: they came too fast", "p: line 3", "p: line 4"]


async def test_a_flood_of_events_lets_others_have_their_turn(host):
    loop, turns = asyncio.get_running_loop(), 0

    def turn() -> None:
        nonlocal turns
        turns += 1
        loop.call_soon(turn)

    async with plughost.LoggingBridge(host, logging.getLogger("plughost.flooded")):
        turn()
        for _ in range(500):
            host.context.events.publish(Logged(plugin="p", generation=1, at=0.0, level="info", message=""))
    assert turns >= 500 // AT_ONCE
