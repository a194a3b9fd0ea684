"""Many calls and clients through a running host, while its plugins are reloaded, killed and quarantined, and
when the host itself is killed: nothing is lost or mixed up."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
from pathlib import Path

import pytest

from plughost.control import ControlClient, HostLost
from tests.support import all_gone, plugin_processes, until
from tests.support.many_calls import Outcome, start, words
from tests.support.running_host import command, puppets, running, toml

NAMES = ("one", "two", "three")


@pytest.fixture
def config(tmp_path, mark):
    file = tmp_path / "plughost.toml"
    file.write_text(
        "".join(
            toml({name: spec}) + f"env = {{ log = {json.dumps(str(tmp_path / name))} }}\n"
            for name, spec in puppets(mark, *NAMES, max_in_flight=8).items()
        )
    )
    return file


def log(tmp_path: Path, name: str) -> list[str]:
    """The calls that a plugin got, over all its processes."""
    return (tmp_path / name).read_text().splitlines()


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


async def calls_by_processes(sockets: Path, numbers: range) -> list[Outcome]:
    """`plughost call` as a process for each call, two at a time."""
    slots = asyncio.Semaphore(2)

    async def call(number: int) -> Outcome:
        async with slots:
            ran = await command(*words(sockets, NAMES[number % len(NAMES)], number))
        return Outcome.of_command(number, ran.returncode, ran.stdout, ran.stderr)

    return await asyncio.gather(*(call(number) for number in numbers))


@pytest.mark.parametrize(
    ("processes", "commands", "client"),
    [
        pytest.param(4, 20, 300, id="some"),
        pytest.param(100, 900, 1000, id="thousands", marks=[pytest.mark.soak, pytest.mark.timeout(600)]),
    ],
)
async def test_calls_of_commands_and_clients_are_answered_once_each_while_plugins_are_reloaded_and_killed(
    config, tmp_path, mark, processes, commands, client
):
    """Calls by `plughost call` as processes, by `plughost call` again and again in another process, and by a
    ControlClient in a third."""
    sockets, done = tmp_path / "s", asyncio.Event()
    first, second, end = processes, processes + commands, processes + commands + client
    async with running(sockets, "-c", config) as host, ControlClient(host.path) as operator:
        disturbing = asyncio.create_task(disturb(operator, mark, done))
        try:
            several = await asyncio.gather(
                calls_by_processes(sockets, range(first)),
                start("command", sockets, range(first, second), NAMES),
                start("client", sockets, range(second, end), NAMES),
            )
        finally:
            done.set()
        did = await disturbing
    await all_gone(mark)
    outcomes = [outcome for some in several for outcome in some]
    assert sorted(outcome.number for outcome in outcomes) == [*range(end)]
    answered = {outcome.number: outcome.answer for outcome in outcomes if not outcome.error}
    assert answered == {number: [NAMES[number % len(NAMES)], number] for number in answered}
    # A call that was with a process that died, or came before it was started again, says so.
    assert {outcome.error for outcome in outcomes} <= {"", "crashed", "stopped", "quarantined"}
    for some, most in zip(several, (processes, commands, client), strict=True):
        assert len([each for each in some if not each.error]) > most / 10, did
    # No plugin got a call twice, or a call of another plugin; each answer is of a call that a plugin got.
    got = {name: [json.loads(line)["params"] for line in log(tmp_path, name)] for name in NAMES}
    assert {who for name in NAMES for who, _ in got[name] if who != name} == set()
    numbers = [number for name in NAMES for _, number in got[name]]
    assert len(numbers) == len(set(numbers))
    assert answered.keys() <= set(numbers)


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
