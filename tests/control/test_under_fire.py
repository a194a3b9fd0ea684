"""Many calls and clients through a running host, while its plugins are reloaded, killed and quarantined, and
when the host itself is killed: nothing is lost or mixed up."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import signal

import pytest

import plughost
from plughost.control import ControlClient, HostLost
from tests.support import all_gone, plugin_processes, until
from tests.support.running_host import command, puppets, running, toml

NAMES = ("one", "two", "three")


@pytest.fixture
def config(tmp_path, mark):
    file = tmp_path / "plughost.toml"
    file.write_text(toml(puppets(mark, *NAMES, max_in_flight=8)))
    return file


async def disturb(client: ControlClient, mark: str, done: asyncio.Event) -> list[str]:
    """Reload, restart, kill and bring back plugins in turn, until the calls are done; returns what was done."""
    did: list[str] = []
    while not done.is_set():
        name = NAMES[len(did) % len(NAMES)]
        what = ("reload", "kill", "restart")[len(did) // len(NAMES) % 3]
        if what == "reload":
            await client.reload(name)
        elif what == "restart":
            await client.restart(name)
        else:
            # It is quarantined: mcptest is never started again by itself.
            while (await client.inspect(name))["state"] != "Quarantined":
                for pid in plugin_processes(f"{mark}\0{name}"):
                    with contextlib.suppress(OSError):
                        os.kill(pid, signal.SIGKILL)
            await client.start(name)
        did.append(what)
    return did


async def test_a_thousand_calls_are_answered_once_each_while_plugins_are_reloaded_killed_and_quarantined(
    config, tmp_path, mark
):
    answered: set[int] = set()
    failed: dict[int, plughost.PluginError] = {}
    done = asyncio.Event()

    async def calls(client: ControlClient, numbers: range) -> None:
        for number in numbers:
            name = random.choice(NAMES)
            try:
                answer = await client.call(name, "echo", [name, number], timeout=60)
            except plughost.PluginError as error:
                failed[number] = error
            else:
                assert answer == [name, number]
                answered.add(number)

    async with running(tmp_path / "s", "-c", config) as host, contextlib.AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(ControlClient(host.path)) for _ in range(5)]
        operator = await stack.enter_async_context(ControlClient(host.path))
        disturbing = asyncio.create_task(disturb(operator, mark, done))
        await asyncio.gather(
            *(calls(client, range(start * 200, start * 200 + 200)) for start, client in enumerate(clients))
        )
        done.set()
        did = await disturbing
    assert len(answered) + len(failed) == 1000
    assert not answered & failed.keys()
    # A call that was with a process that died, or came before it was started again, says so.
    assert {type(error) for error in failed.values()} <= {
        plughost.Crashed,
        plughost.Stopped,
        plughost.Quarantined,
    }
    assert len(answered) > 100, did
    await all_gone(mark)


async def test_the_command_line_calls_a_running_plugin_while_it_is_reloaded(config, tmp_path, mark):
    sockets = tmp_path / "s"
    async with running(sockets, "-c", config) as host, ControlClient(host.path) as client:
        pids = {plugin["instances"][0]["pid"] for plugin in (await client.ps())["plugins"]}
        reloading = asyncio.create_task(_reload_often(client))

        async def call(number: int) -> None:
            name = NAMES[number % 3]
            ran = await command("call", "--socket-dir", sockets, name, "echo", f'["{name}", {number}]')
            assert (ran.stdout, ran.returncode) == (f'["{name}", {number}]\n', 0), ran.stderr

        for start in range(0, 12, 3):
            await asyncio.gather(*(call(number) for number in range(start, start + 3)))
        reloading.cancel()
        await asyncio.gather(reloading, return_exceptions=True)
        seen = (await client.ps())["plugins"]
        assert sum(plugin["metrics"]["calls"] for plugin in seen) == 12
        assert all(plugin["generation"] > 1 for plugin in seen)
        assert pids.isdisjoint({plugin["instances"][-1]["pid"] for plugin in seen})


async def _reload_often(client: ControlClient) -> None:
    while True:
        for name in NAMES:
            await client.reload(name)


async def test_fifty_clients_at_once_get_their_own_answers(config, tmp_path, mark):
    async with running(tmp_path / "s", "-c", config) as host, contextlib.AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(ControlClient(host.path)) for _ in range(50)]

        async def calls(who: int, client: ControlClient) -> None:
            answers = await asyncio.gather(
                *(client.call(NAMES[number % 3], "echo", [who, number], timeout=60) for number in range(20))
            )
            assert answers == [[who, number] for number in range(20)]

        await asyncio.gather(*(calls(who, client) for who, client in enumerate(clients)))


async def test_when_the_host_is_killed_every_client_is_told_at_once(config, tmp_path, mark):
    sockets = tmp_path / "s"
    async with running(sockets, "-c", config) as host, contextlib.AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(ControlClient(host.path)) for _ in range(50)]
        calls = [
            asyncio.create_task(client.call(name, "silent", timeout=600))
            for client in clients
            for name in NAMES
        ]
        shell = asyncio.create_task(
            command("call", "--json", "--socket-dir", sockets, "one", "silent", "--timeout", "600")
        )
        while sum(len(each["instances"]) for each in (await clients[0].ps())["plugins"]) < 3:
            pass
        while (await clients[0].inspect("one"))["instances"][0]["waiting"] < 43:  # 51 calls, 8 at a time
            pass
        host.process.kill()
        async with asyncio.timeout(20):
            outcomes = await asyncio.gather(*calls, return_exceptions=True)
            ran = await shell
        assert {type(outcome) for outcome in outcomes} == {HostLost}
        assert (ran.returncode, '"host_lost"' in ran.stdout) == (3, True), ran
        with pytest.raises(HostLost):
            await clients[0].ps()
    await until(lambda: not plugin_processes(mark))
