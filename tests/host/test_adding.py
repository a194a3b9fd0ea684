"""What cannot be added, or does not start when it should, is not there."""

from __future__ import annotations

import asyncio
import json

import msgspec
import pytest

import plughost
from plughost import config
from plughost.contracts.registry import get_contract
from plughost.events import StateChanged
from tests.support import all_gone, processes
from tests.support.confinable import needs
from tests.support.kaged import folder, spec


@pytest.fixture
def place(tmp_path, mark):
    return folder(tmp_path / mark)


def broken(place):
    """Eager, and it ends before it is ready."""
    (place / "main.py").write_text("raise SystemExit(3)\n")
    return spec(place, eager=True, failure_limit=1)


async def test_an_eager_plugin_that_does_not_start_is_not_added_and_may_be_tried_again(host, place, mark):
    good = (place / "main.py").read_text()
    with pytest.raises(plughost.Quarantined, match="exited with code 3"):
        await host.add(broken(place))
    assert host.plugins == {}
    await all_gone(mark)
    (place / "main.py").write_text(good)
    plugin = await host.add(spec(place, eager=True))
    assert (host.plugins, plugin.state) == ({"puppet": plugin}, "Running")


async def test_without_a_start_it_is_added_fails_in_its_own_time_and_is_reloaded(host, place):
    good = (place / "main.py").read_text()
    plugin = await host.add(broken(place), start=False)
    with pytest.raises(plughost.Quarantined):
        await plugin.start()
    assert host.plugins == {"puppet": plugin}
    (place / "main.py").write_text(good)
    await plugin.reload()
    assert await plugin.call("p.echo", 1) == 1


async def test_a_start_that_is_given_up_leaves_nothing(host, tmp_path, mark):
    place = folder(tmp_path / mark, env={"init": "never"})
    with host.events() as told:
        adding = asyncio.ensure_future(host.add(spec(place, eager=True)))
        while not isinstance(await told.get(), StateChanged):
            pass
        adding.cancel()
        with pytest.raises(asyncio.CancelledError):
            await adding
    assert (host.plugins, processes(mark)) == ({}, [])


async def test_one_that_is_removed_while_it_starts_is_not_missed(host, tmp_path, mark):
    place = folder(tmp_path / mark, env={"init": "never"})
    with host.events() as told:
        adding = asyncio.ensure_future(host.add(spec(place, eager=True)))
        while not isinstance(await told.get(), StateChanged):
            pass
        await host.remove("puppet")
        with pytest.raises(plughost.Stopped):
            await adding
    assert host.plugins == {}


async def test_what_was_made_ready_for_a_confined_one_is_given_back(host, place):
    needs("strict")
    confined = msgspec.structs.replace(broken(place), command=["/bin/sh", "-c", "exit 3"], sandbox="strict")
    with pytest.raises(plughost.PluginError):
        await host.add(confined)
    assert (host.plugins, host._sandboxes._plugins) == ({}, {})


async def test_a_file_is_checked_when_it_is_loaded_and_again_when_its_plugin_is_added(
    host, place, tmp_path, monkeypatch
):
    """Each reads the manifest once. What is added is what the folder says then, not when the file was loaded."""
    contract = get_contract("kaged")
    resolve = type(contract).resolve
    resolved = []

    def count(self, spec):
        resolved.append(spec.name)
        return resolve(self, spec)

    monkeypatch.setattr(type(contract), "resolve", count)
    file = tmp_path / "plughost.toml"
    command = json.dumps(spec(place).command)
    file.write_text(
        f'[plugins.puppet]\ncontract = "kaged"\ncwd = "{place}"\ncommand = {command}\nsandbox = "none"\n'
    )
    resolved.clear()
    loaded = config.load(file)["puppet"]
    assert len(resolved) == 1
    manifest = place / "manifest.yaml"
    told = json.loads(manifest.read_text())
    manifest.write_text(json.dumps({**told, "methods": ["p.later"]}))
    plugin = await host.add(loaded, start=False)
    assert len(resolved) == 2
    assert [entry.name for entry in plugin.catalogue_entries()] == ["p.later"]
