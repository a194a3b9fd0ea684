"""The slots of the pool: nobody waits for a slot that is free, and the first in the queue gets it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from plughost import Stopped
from plughost.testing import VirtualClock
from plughost.vai.invocations.pool import Pool, PooledWorker, PoolKey


class Plugin:
    """A plugin that is ready at once."""

    accepting_calls = True
    confined_by = ()

    def __init__(self, name: str) -> None:
        self.name = name

    async def start(self) -> None:
        pass


class Host:
    """A host whose plugins need no process."""

    async def add(self, spec: str) -> Plugin:
        return Plugin(spec)

    async def remove(self, name: str) -> None:
        pass


def pool_of(most: int, on_removed: Callable[[PooledWorker], Awaitable[None]] | None = None) -> Pool:
    return Pool(Host(), VirtualClock(), most=most, on_removed=on_removed)  # type: ignore[arg-type]


def take(pool: Pool, name: str) -> asyncio.Task[PooledWorker]:
    """Ask for a process that no other invocation may use afterwards."""
    key = PoolKey(name, "export", None, "policy")
    return asyncio.create_task(pool.take(key, lambda number: f"{name}#{number}", single_use=True))  # type: ignore[arg-type, return-value]


async def settle() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


async def test_a_slot_passes_on_when_its_new_holder_is_cancelled_at_that_moment():
    async def cancel_first(_: PooledWorker) -> None:
        # Runs before the slot is handed over, so that both happen in one pass of the event loop.
        asyncio.get_running_loop().call_soon(first.cancel)

    pool = pool_of(1, cancel_first)
    held = await take(pool, "held")
    first, second = take(pool, "first"), take(pool, "second")
    await settle()
    pool.give_back(held)
    await settle()
    assert first.cancelled()
    assert second.done(), "a slot is free, and the next one still waits for it"
    assert (second.result().plugin.name, len(pool)) == ("second#1", 1)


async def test_those_who_wait_get_slots_in_the_order_in_which_they_came():
    pool = pool_of(1)
    held = await take(pool, "held")
    order: list[str] = []
    waiting = [take(pool, name) for name in ("a", "b", "c")]
    for task in waiting:
        task.add_done_callback(lambda done: order.append(done.result().plugin.name))
    await settle()
    for task in waiting:
        pool.give_back(held)
        newcomer = take(pool, "newcomer")
        await settle()
        assert (task.done(), newcomer.done()) == (True, False)
        newcomer.cancel()
        held = task.result()
    assert order == ["a#1", "b#1", "c#1"]


@pytest.mark.parametrize("cancelled", [False, True])
async def test_closing_refuses_those_who_wait_and_grants_no_slot_twice(cancelled):
    pool = pool_of(1)
    held = await take(pool, "held")
    waiting = take(pool, "waiting")
    await settle()
    closing = asyncio.create_task(pool.close())
    if cancelled:
        asyncio.get_running_loop().call_soon(waiting.cancel)
    await settle()
    with pytest.raises(asyncio.CancelledError if cancelled else Stopped):
        await waiting
    await closing
    assert len(pool) == 1
    pool.give_back(held)
    await settle()
    assert len(pool) == 0
    with pytest.raises(Stopped, match="the pool is closed"):
        await take(pool, "late")
