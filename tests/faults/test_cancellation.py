"""Every operation, cancelled at every one of its awaits: nothing leaks and the host works on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Generator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest

import plughost
from tests.support import PLUGINS, PYTHON, all_gone, puppet, token
from tests.support.scripts import MCPTEST, RUNE

MOST_AWAITS = 50


class CancelledAt:
    """Awaits a coroutine and cancels its task each time it is about to wait for the n-th time."""

    def __init__(self, coroutine: Any, at: int) -> None:
        self._coroutine = coroutine
        self._at = at
        self.waits = 0

    def __await__(self) -> Generator[Any, Any, Any]:
        task = asyncio.current_task()
        assert task is not None
        inner = self._coroutine.__await__()
        sent: Any = None
        thrown: BaseException | None = None
        while True:
            try:
                waited_for = inner.send(sent) if thrown is None else inner.throw(thrown)
            except StopIteration as end:
                return end.value
            self.waits += 1
            if self.waits == self._at:
                asyncio.get_running_loop().call_soon(task.cancel)
            thrown = None
            try:
                sent = yield waited_for
            except BaseException as error:
                thrown = error


def parley(mark: str, *, name: str = "parley", **options: Any) -> plughost.PluginSpec:
    command = [*PYTHON, str(PLUGINS / "parley_puppet.py"), mark]
    return plughost.PluginSpec(contract="parley", name=name, command=command, options=options)


Operation = Callable[[plughost.Host, str], Awaitable[Any]]


async def add_eager(host: plughost.Host, mark: str) -> None:
    await host.add(parley(mark, name="other", eager=True))


async def first_call(host: plughost.Host, mark: str) -> None:
    plugin = await host.add(puppet(mark, name="other"))
    assert await plugin.call("echo", 1) == 1


async def first_call_behind_a_handshake(host: plughost.Host, mark: str) -> None:
    plugin = await host.add(parley(mark, name="other"))
    assert await plugin.call("echo", 1) == 1


async def one_process_per_call(host: plughost.Host, mark: str) -> None:
    plugin = await host.add(RUNE.spec([*RUNE.steps, *RUNE.rest], mark))
    assert await plugin.call("echo", 1) == 1


async def warm_call(host: plughost.Host, mark: str) -> None:
    assert await host.plugins["parley"].call("echo", 1) == 1


async def call_without_an_answer(host: plughost.Host, mark: str) -> None:
    with pytest.raises(plughost.Timeout):
        await host.plugins["parley"].call("silent", timeout=0.01)


async def call_in_line(host: plughost.Host, mark: str) -> None:
    """Behind others that wait for their turn."""
    plugin = host.plugins["puppet"]
    others = [asyncio.create_task(plugin.call("echo", n)) for n in range(3)]
    try:
        assert await plugin.call("echo", 9) == 9
    finally:
        assert await asyncio.gather(*others) == [0, 1, 2]


async def call_of_a_plugin_that_dies(host: plughost.Host, mark: str) -> None:
    plugin = await host.add(MCPTEST.spec([["line"], ["kill"]], mark))
    with pytest.raises(plughost.Crashed):
        await plugin.call("echo", 1)


async def start(host: plughost.Host, mark: str) -> None:
    await (await host.add(parley(mark, name="other"))).start()


async def reload(host: plughost.Host, mark: str) -> None:
    await host.plugins["parley"].reload()


async def reload_under_load(host: plughost.Host, mark: str) -> None:
    plugin = host.plugins["parley"]
    calls = [asyncio.create_task(plugin.call("echo", n)) for n in range(5)]
    try:
        await plugin.reload()
    finally:
        assert await asyncio.gather(*calls) == [0, 1, 2, 3, 4]


async def reload_of_what_does_not_start(host: plughost.Host, mark: str) -> None:
    plugin = await host.add(parley(mark, name="other", respawn=False))
    assert await plugin.call("echo", 1) == 1
    plugin.spec = msgspec.structs.replace(plugin.spec, command=["/nonexistent"])
    with pytest.raises(plughost.Quarantined, match="/nonexistent"):
        await plugin.reload()


async def stop(host: plughost.Host, mark: str) -> None:
    plugin = await host.add(parley(mark, name="other", eager=True))
    await plugin.stop()


async def remove(host: plughost.Host, mark: str) -> None:
    await host.add(parley(mark, name="other", eager=True))
    await host.remove("other")


async def events(host: plughost.Host, mark: str) -> None:
    with host.events() as seen:
        await host.plugins["parley"].reload()
        async for _ in seen:
            break


OPERATIONS: list[Operation] = [
    add_eager, first_call, first_call_behind_a_handshake, one_process_per_call, warm_call,
    call_without_an_answer, call_in_line, call_of_a_plugin_that_dies, start, reload, reload_under_load, reload_of_what_does_not_start, stop, remove,
    events,
]  # fmt: skip


@asynccontextmanager
async def busy_host(mark: str) -> AsyncIterator[plughost.Host]:
    async with plughost.Host() as host:
        await host.add(parley(mark, eager=True))
        await (await host.add(puppet(mark))).call("ping")
        yield host


async def interrupted(operation: Awaitable[Any], at: int) -> int | None:
    """How often it had waited when it was cancelled; None when it was done before."""
    attempt = CancelledAt(operation, at)

    async def run() -> None:
        await attempt

    task = asyncio.create_task(run())
    (outcome,) = await asyncio.wait_for(asyncio.gather(task, return_exceptions=True), 60)
    if isinstance(outcome, asyncio.CancelledError) or attempt.waits >= at:
        return attempt.waits
    if outcome is not None:
        raise outcome
    return None


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.__name__)
async def test_an_operation_cancelled_at_any_await_leaves_the_host_as_good_as_before(operation, mark):
    cancelled = 0
    for at in range(1, MOST_AWAITS):
        async with busy_host(mark) as host:
            own = token()
            was_cancelled = await interrupted(operation(host, own), at)
            if operation is one_process_per_call:
                await all_gone(own)
            # Those it had nothing to do with, and those it had, work on.
            assert await asyncio.wait_for(host.plugins["parley"].call("echo", at), 60) == at
            assert await asyncio.wait_for(host.plugins["puppet"].call("echo", at), 60) == at
            other = host.plugins.get("other")
            if other is not None and operation in (stop, remove):
                await asyncio.wait_for(host.remove("other"), 60)  # what was begun can be finished
            elif other is not None:
                assert await asyncio.wait_for(other.call("echo", at), 60) == at
            for plugin in host.plugins.values():
                # One that is ending is being said goodbye to.
                instances = plugin.inspect()["instances"]
                running = [each for each in instances if each["state"] in ("Running", "Spawning")]
                assert [(each["in_flight"], each["waiting"]) for each in running] == [(0, 0)] * len(running)
                assert len(running) <= 1
        await all_gone(mark)
        await all_gone(own)
        if was_cancelled is None:
            break
        cancelled += 1
    else:
        pytest.fail("it never ended")
    assert cancelled > 0


async def test_closing_a_host_cancelled_at_any_await_leaves_nothing(mark):
    for at in range(1, MOST_AWAITS):
        async with busy_host(mark) as host:
            was_cancelled = await interrupted(host.close(), at)
            await all_gone(mark)
        if was_cancelled is None:
            assert at > 1
            return
    pytest.fail("it never ended")
