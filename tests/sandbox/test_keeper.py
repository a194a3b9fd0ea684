"""What a host keeps for its confined plugins is there as long as anybody needs it, and no longer."""

from __future__ import annotations

import asyncio
import os
import threading
from pathlib import Path

import msgspec
import pytest

import plughost
from plughost.base.errors import LaunchFailed
from plughost.guard.powers import Endpoint, Powers
from plughost.sandbox import confined as module
from tests.support import fds

pytestmark = pytest.mark.usefixtures("strict")


def spec(port: int, name: str = "kept") -> plughost.PluginSpec:
    allow = Powers(connect=(Endpoint("localhost", port, private=True),))
    command = ["/bin/sh", "-c", 'read line; echo "{\\"id\\":1,\\"result\\":1}"; read line']
    return plughost.PluginSpec(contract="mcptest", name=name, command=command, sandbox="strict", allow=allow)


def sockets(host: plughost.Host) -> list[Path]:
    return sorted(Path(host._keeper._ground.quarters.path).glob("*/*/proxy"))


@pytest.fixture
def held(monkeypatch):
    """Deciding takes until the second event; the first tells that it has begun."""
    begun, go_on = threading.Event(), threading.Event()
    really = module.confined

    def slowly(*args, **named):
        begun.set()
        assert go_on.wait(10)
        return really(*args, **named)

    def hold():
        monkeypatch.setattr(module, "confined", slowly)
        return begun, go_on

    return hold


async def test_what_ends_while_a_reload_is_decided_takes_nothing_along(host, held):
    """A process of the current generation that ends then is no sign that the current way out is unused."""
    plugin = await host.add(spec(1001))
    assert await plugin.call("one") == 1
    before = sockets(host)
    begun, go_on = held()
    plugin.spec = msgspec.structs.replace(plugin.spec, allow=spec(1002).allow)
    reload = asyncio.ensure_future(plugin.reload())
    await asyncio.to_thread(begun.wait, 10)
    host._keeper.settled(plugin.name)
    await asyncio.sleep(0)
    assert set(before) < set(sockets(host))
    go_on.set()
    await reload
    plugin.kill()


async def test_a_reload_that_cannot_be_confined_leaves_all_as_it_was(host, monkeypatch):
    plugin = await host.add(spec(1001))
    before = sockets(host)

    def refused(*args, **named):
        raise LaunchFailed("not today")

    monkeypatch.setattr(module, "confined", refused)
    plugin.spec = msgspec.structs.replace(plugin.spec, allow=spec(1002).allow)
    with pytest.raises(LaunchFailed, match="not today"):
        await plugin.reload()
    assert sockets(host) == before
    host._keeper.settled(plugin.name)
    assert await plugin.call("one") == 1
    assert sockets(host) == before
    plugin.kill()


async def test_a_host_closed_while_a_plugin_is_added_keeps_nothing(held):
    begun, go_on = held()
    host = plughost.Host()
    adding = asyncio.ensure_future(host.add(spec(1001)))
    await asyncio.to_thread(begun.wait, 10)
    with pytest.raises(plughost.InvalidSpec, match="already"):
        await host.add(spec(1002))
    path = host._keeper._ground.quarters.path
    closing = asyncio.ensure_future(host.close())
    await asyncio.sleep(0)
    go_on.set()
    with pytest.raises(plughost.PluginError):
        await adding
    await closing
    assert not os.path.exists(path)
    assert host._keeper._plugins == {}


async def test_plugins_that_come_first_together_share_one_folder(tmp_path, monkeypatch, folder):
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    async with plughost.Host() as host:
        specs = [
            plughost.PluginSpec(contract="mcptest", name=f"p{n}", command=["/bin/true"], sandbox="strict")
            for n in range(6)
        ]
        adding = [asyncio.create_task(host.add(spec)) for spec in specs]
        await asyncio.sleep(0)
        adding[0].cancel()  # whoever asked first need not be there when it is made
        await asyncio.gather(*adding, return_exceptions=True)
        assert len(list(folder.glob("plughost-host-*"))) == 1
        assert len(host.plugins) == 5
    assert not list(folder.glob("plughost-host-*"))


async def test_the_first_is_cancelled_and_nothing_is_left(monkeypatch, folder):
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    async with plughost.Host() as host:
        spec = plughost.PluginSpec(contract="mcptest", name="p", command=["/bin/true"], sandbox="strict")
        adding = asyncio.create_task(host.add(spec))
        await asyncio.sleep(0)
        adding.cancel()
        await asyncio.gather(adding, return_exceptions=True)
    assert not list(folder.glob("plughost-host-*"))


async def test_a_plugin_that_was_removed_leaves_no_folder_and_no_descriptor(host):
    """Else a host that adds and removes plugins of many names would run out of them."""
    left = []
    for name in ("first", "second", "third"):
        plugin = await host.add(spec(1001, name))
        assert await plugin.call("one") == 1
        rooms = Path(host._keeper._ground.quarters.path)
        assert [each for each in rooms.iterdir() if each.is_dir()]
        await host.remove(name)
        assert not [each for each in rooms.iterdir() if each.is_dir()]
        left.append(len(fds()))
    assert left[0] == left[1] == left[2]
