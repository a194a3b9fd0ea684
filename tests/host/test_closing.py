"""A host is closed once, by whomever and as often as it is asked to."""

from __future__ import annotations

import asyncio
import shutil

import pytest

import plughost
from plughost.contract import LogService
from tests.support import ROOT, all_gone, puppet, until
from tests.support.confinable import needs, open_folder


class Counting:
    """A service that counts how often it is closed, and closes when it may."""

    def __init__(self) -> None:
        self.closes = 0
        self.may_close = asyncio.Event()

    async def close(self) -> None:
        self.closes += 1
        await self.may_close.wait()


async def test_a_second_close_does_nothing():
    host, service = plughost.Host(), Counting()
    service.may_close.set()
    host.provide("x", service)
    for _ in range(3):
        await host.close()
    assert service.closes == 1


async def test_a_close_during_another_waits_for_its_end():
    host, service = plughost.Host(), Counting()
    host.provide("x", service)
    first = asyncio.create_task(host.close())
    await until(lambda: service.closes)
    second = asyncio.create_task(host.close())
    for _ in range(10):
        await asyncio.sleep(0)
    assert not second.done()
    service.may_close.set()
    await asyncio.gather(first, second)
    assert service.closes == 1


async def test_a_second_close_that_is_cancelled_kills_plugins_that_take_their_time(clock, mark):
    async with plughost.Host(clock=clock) as host:
        plugin = await host.add(puppet(mark))
        await plugin.call("stubborn")
        first = asyncio.create_task(host.close())
        await until(lambda: plugin.inspect()["instances"][0]["state"] == "ShuttingDown")
        second = asyncio.create_task(host.close())
        await asyncio.sleep(0)
        second.cancel()
        with pytest.raises(asyncio.CancelledError):
            await second
        await first
    await all_gone(mark)


async def test_a_closed_host_cannot_be_entered():
    host = plughost.Host()
    await host.close()
    with pytest.raises(plughost.Stopped, match="this host is closed") as error:
        await host.__aenter__()
    assert error.value.hint == "create another Host"


class Failing(LogService):
    """A log service of a program, with a fault."""

    def set_threshold(self, name: str, level: str) -> None:
        raise RuntimeError("no such level")


async def test_a_plugin_that_the_log_service_refuses_leaves_no_sandbox(host):
    needs("landlock")
    host.provide("logs", Failing())
    with open_folder() as parent:
        place = parent / "echo-ainb"
        place.mkdir()
        shutil.copy(ROOT / "plugins" / "echo-ainb" / "manifest.toml", place)
        (place / "echo-ainb").write_text("#!/bin/sh\n")
        (place / "echo-ainb").chmod(0o755)
        spec = plughost.PluginSpec(
            contract="ainb",
            name="echo-ainb",
            command=[str(place / "echo-ainb")],
            cwd=str(place),
            options={"folder": str(place)},
            sandbox="landlock",
        )
        with pytest.raises(RuntimeError, match="no such level"):
            await host.add(spec, start=False)
        assert (host.plugins, host._sandboxes._plugins) == ({}, {})
