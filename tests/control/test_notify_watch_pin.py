"""A running host passes notifications on, reports states, and keeps a plugin that somebody needs."""

from __future__ import annotations

import asyncio
import itertools
import os
import signal

import pytest

import plughost
from plughost.control import Control, ControlClient, HostLost, remote_plugin
from tests.support import plugin_process, until, vouched
from tests.support.screens import easel, inputs

VIEW = {"viewport": {"width": 4, "height": 1}}


def key(letter: str, number: int = 0) -> dict[str, object]:
    code = {"type": "char", "ch": letter}
    return {"screen_id": "main", "key": {"code": code, "mods": 0, "kind": "press"}, "generation": number}


@pytest.fixture
async def door(host, tmp_path):
    async with Control(host, tmp_path / "s", lambda: None) as door:
        yield door


@pytest.fixture
async def client(door):
    async with ControlClient(door.path) as client:
        yield client


async def test_thousands_of_notifications_at_once_arrive_in_order(host, client, tmp_path, monkeypatch):
    file = tmp_path / "inputs"
    plugin = await host.add(vouched(easel(tmp_path, env={"INPUTS": str(file)})))
    remote = client.plugin("easel")
    await plugin.start()
    monkeypatch.setattr(remote_plugin, "MAX_NOTIFICATIONS", 3000)
    assert all(remote.notify("plugin/handle_key", key("x", number), urgent=True) for number in range(3000))
    assert not remote.notify("plugin/handle_key", key("x")), "the host has answered none of them yet"
    await until(lambda: len(inputs(file)) == 3000)
    assert [params["generation"] for _, params, _ in inputs(file)] == [*range(3000)]
    assert remote.notify("plugin/handle_key", key("x"))


async def test_a_client_with_as_many_open_requests_as_it_may_have_still_notifies(
    host, client, tmp_path, monkeypatch
):
    monkeypatch.setattr("plughost.control.connection.MAX_REQUESTS", 2)
    await (await host.add(vouched(easel(tmp_path)))).start()
    pins = [asyncio.create_task(client.pin("easel")) for _ in range(2)]
    await asyncio.sleep(0)  # both are sent
    with pytest.raises(plughost.Overloaded, match="2 open requests"):
        await client.ps()
    assert await client.notify("easel", "plugin/handle_key", key("x"))
    for pin in pins:
        pin.cancel()
    await asyncio.gather(*pins, return_exceptions=True)


async def test_a_notification_says_whether_it_was_sent(host, client, tmp_path):
    plugin = await host.add(vouched(easel(tmp_path)))
    assert not await client.notify("easel", "plugin/handle_key", key("x")), "it is not running"
    await plugin.start()
    assert await client.notify("easel", "plugin/handle_key", key("x"))
    await client.stop("easel")
    assert not await client.notify("easel", "plugin/handle_key", key("x"))
    with pytest.raises(plughost.InvalidSpec, match="no plugin 'nobody'"):
        await client.notify("nobody", "plugin/handle_key", key("x"))
    with pytest.raises(plughost.InvalidSpec, match="cannot be sent"):
        await client.notify("easel", "plugin/handle_key", object())


@pytest.mark.clause("AINB-24")
async def test_an_urgent_notification_overtakes_those_that_wait(host, client, tmp_path):
    file = tmp_path / "inputs"
    place = easel(tmp_path, env={"INPUTS": str(file)})
    await (await host.add(vouched(place))).start()
    pid = plugin_process(f"{place}/easel")
    os.kill(pid, signal.SIGSTOP)
    try:
        event = {"topic": "data", "payload": "x" * (1 << 20)}
        for _ in range(5):
            assert await client.notify("easel", "plugin/handle_event", event)
        assert await client.notify("easel", "plugin/handle_key", key("x"), urgent=True)
    finally:
        os.kill(pid, signal.SIGCONT)
    await until(lambda: len(inputs(file)) == 6)
    assert [kind for kind, *_ in inputs(file)].index("key") < 5


async def test_the_states_of_a_plugin_are_told_as_they_change(host, client, tmp_path):
    place = easel(tmp_path, failure_limit=1)
    await host.add(vouched(place))
    states: list[dict[str, object]] = []

    async def watch() -> None:
        async for state in client.watch("easel"):
            states.append(state)  # noqa: PERF401 each is looked at as it comes

    def last() -> object:
        return states and states[-1]["state"]

    watching = asyncio.create_task(watch())
    await until(lambda: states == [{"state": "Idle", "failure": None}])
    await client.start("easel")
    await until(lambda: last() == "Running")
    os.kill(plugin_process(f"{place}/easel"), signal.SIGKILL)
    await until(lambda: last() == "Quarantined")
    assert "SIGKILL" in states[-1]["failure"]["message"]
    await client.restart("easel")
    await until(lambda: states[-1] == {"state": "Running", "failure": None})
    await client.stop("easel")
    await until(lambda: last() == "Stopped")
    assert all(one != other for one, other in itertools.pairwise(states)), "each is a change"
    with pytest.raises(plughost.InvalidSpec, match="no plugin 'nobody'"):
        await anext(client.watch("nobody"))
    await client.close()
    with pytest.raises(HostLost):
        await watching


async def test_a_pinned_plugin_stays_pinned_over_a_restart_until_its_client_leaves(host, door, tmp_path):
    first = await host.add(vouched(easel(tmp_path)))
    async with ControlClient(door.path) as client:
        remote = client.plugin("easel")
        for reason in ("one", "two"):
            remote.pin(reason)
        await until(lambda: len(first._pins) == 2)
        remote.unpin("one")
        await until(lambda: len(first._pins) == 1)
        await client.restart("easel")
        second = host.plugins["easel"]
        assert second is not first
        assert second.pinned
    await until(lambda: not second.pinned)


@pytest.mark.clause("AINB-29")
async def test_calls_with_priority_of_several_clients_are_made_one_at_a_time(host, door, tmp_path):
    plugin = await host.add(vouched(easel(tmp_path)))
    async with ControlClient(door.path) as one, ControlClient(door.path) as other:
        await one.call("easel", "plugin/render", VIEW, priority=True)
        await one.notify("easel", "plugin/handle_key", key("h"), urgent=True)
        calls = [
            asyncio.create_task(client.call("easel", "plugin/render", VIEW, priority=True))
            for client in (one, other, one)
        ]
        await until(lambda: plugin.inspect()["instances"][0]["in_flight"] == 1)
        await other.ps()  # by now the host has read what the other client sent before
        await one.ps()
        assert plugin.inspect()["instances"][0]["in_flight"] == 1
        calls[0].cancel()
        await one.notify("easel", "plugin/handle_key", key("u"), urgent=True)
        for call in calls[1:]:
            assert (await call)["buffer"]["width"] == 4
