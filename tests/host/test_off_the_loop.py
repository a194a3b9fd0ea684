"""A plugin's files are read in a thread: while they are, the host does everything else."""

from __future__ import annotations

import asyncio
import threading

import pytest

import plughost
from plughost import config
from plughost.contracts.kaged.contract import KagedContract
from tests.support import until
from tests.support.kaged import folder, spec

PATIENCE = 20


class Held:
    """A function that, once called, goes on when the event loop says so; on the loop itself, it never does."""

    def __init__(self, function):
        self._function = function
        self.called = threading.Event()
        self.may_go_on = threading.Event()

    def __call__(self, *args):
        self.called.set()
        assert self.may_go_on.wait(PATIENCE), "the event loop was held"
        return self._function(*args)


@pytest.fixture
def held_bind(monkeypatch):
    def hold():
        held = Held(KagedContract.resolve)
        monkeypatch.setattr(KagedContract, "resolve", lambda *args: held(*args))
        return held

    return hold


@pytest.fixture
def place(tmp_path, mark):
    return folder(tmp_path / mark)


async def under_way(held, work):
    task = asyncio.ensure_future(work)
    await until(lambda: held.called.is_set() or task.done())
    assert not task.done()
    return task


async def test_a_folder_is_read_while_others_go_on(host, tmp_path, monkeypatch):
    (tmp_path / "plughost.toml").write_text('[plugins.p]\ncontract = "mcptest"\ncommand = ["cat"]\n')
    held = Held(config.load_folder)
    monkeypatch.setattr(config, "load_folder", held)
    adding = await under_way(held, host.add(tmp_path))
    held.may_go_on.set()
    assert (await adding).name == "p"


async def test_a_host_that_closes_while_a_folder_is_read_does_not_add_it(tmp_path, monkeypatch):
    (tmp_path / "plughost.toml").write_text('[plugins.p]\ncontract = "mcptest"\ncommand = ["cat"]\n')
    held = Held(config.load_folder)
    monkeypatch.setattr(config, "load_folder", held)
    async with plughost.Host() as host:
        adding = await under_way(held, host.add(tmp_path))
    held.may_go_on.set()
    with pytest.raises(plughost.Stopped):
        await adding
    assert host.plugins == {}


async def test_a_manifest_is_read_while_others_go_on_and_its_name_is_taken(host, place, held_bind):
    held = held_bind()
    adding = await under_way(held, host.add(spec(place), start=False))
    with pytest.raises(plughost.InvalidSpec, match="already has a plugin of that name"):
        await host.add(spec(place))
    held.may_go_on.set()
    plugin = await adding
    assert host.plugins == {"puppet": plugin}


async def test_an_add_that_is_given_up_meanwhile_leaves_its_name_free(host, place, held_bind):
    held = held_bind()
    adding = await under_way(held, host.add(spec(place), start=False))
    adding.cancel()
    with pytest.raises(asyncio.CancelledError):
        await adding
    assert host.plugins == {}
    held.may_go_on.set()
    assert (await host.add(spec(place), start=False)).name == "puppet"


async def test_a_host_that_closes_meanwhile_does_not_add_it(place, held_bind):
    held = held_bind()
    async with plughost.Host() as host:
        adding = await under_way(held, host.add(spec(place)))
    held.may_go_on.set()
    with pytest.raises(plughost.Stopped):
        await adding
    assert (host.plugins, host._sandboxes._plugins) == ({}, {})


async def test_calls_go_on_while_a_reload_reads_the_manifest(host, place, held_bind):
    plugin = await host.add(spec(place))
    assert await plugin.call("p.echo", 1) == 1
    held = held_bind()
    reloading = await under_way(held, plugin.reload())
    assert await plugin.call("p.echo", 2) == 2
    held.may_go_on.set()
    await reloading
    assert (plugin.generation, await plugin.call("p.echo", 3)) == (2, 3)


async def test_a_plugin_that_is_stopped_while_a_reload_reads_its_manifest_stays_so(host, place, held_bind):
    plugin = await host.add(spec(place))
    held = held_bind()
    reloading = await under_way(held, plugin.reload())
    await host.remove("puppet")
    held.may_go_on.set()
    with pytest.raises(plughost.Stopped):
        await reloading
    assert (host.plugins, host._sandboxes._plugins) == ({}, {})
