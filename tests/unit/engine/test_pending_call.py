"""The future that wakes its caller at once: in all else an ordinary future."""

from __future__ import annotations

import asyncio

import pytest

import plughost
from plughost.clock import KernelClock, LoopClock
from plughost.engine.pending_call import PendingCall
from plughost.wire.messages import Response


def pending():
    made = PendingCall(loop=asyncio.get_running_loop())
    made.fill(None, 1, "m", b"", None, 0.0)
    made.answer = Response(1)
    return made


async def test_settling_runs_the_waiter_before_it_returns():
    waited = pending()
    order = []

    async def caller():
        await waited
        order.append("caller")

    task = asyncio.create_task(caller())
    await asyncio.sleep(0)

    def callback():
        waited.resolve_now()
        order.append("after settle")

    asyncio.get_running_loop().call_soon(callback)
    await task
    assert order == ["caller", "after settle"]


async def test_every_other_end_goes_through_the_loop():
    for end in (
        lambda it: it.set_result(Response(1)),
        lambda it: it.fail(plughost.Crashed("x")),
        lambda it: it.cancel(),
    ):
        waited = pending()
        task = asyncio.ensure_future(asyncio.wait({waited}))
        await asyncio.sleep(0)
        end(waited)
        assert not task.done()
        done, _ = await task
        assert done == {waited}
        if not waited.cancelled():
            waited.exception()


async def test_several_waiters_are_all_told():
    waited = pending()
    told = []
    waited.add_done_callback(lambda _: told.append(1))
    waited.add_done_callback(lambda _: told.append(2))
    gone = lambda _: told.append(3)  # noqa: E731
    waited.add_done_callback(gone)
    assert waited.remove_done_callback(gone) == 1
    waited.resolve_now()
    await asyncio.sleep(0)
    assert told == [1, 2]
    waited.resolve_now()
    waited.fail(plughost.Crashed("too late"))
    assert await waited == Response(1)


async def test_a_removed_waiter_is_not_woken():
    waited = pending()
    waiter = lambda _: pytest.fail("woken")  # noqa: E731
    waited.add_done_callback(waiter)
    assert waited.remove_done_callback(waiter) == 1
    waited.resolve_now()


async def test_a_cancelled_task_that_waits_is_cancelled():
    task = asyncio.create_task(asyncio.wait_for(pending(), 0.01))
    with pytest.raises(TimeoutError):
        await task


@pytest.mark.parametrize("kind", [KernelClock, LoopClock])
async def test_timers_fire_in_order_and_never_early(kind):
    loop = asyncio.get_running_loop()
    clock = kind(loop)
    fired = []
    done = loop.create_future()
    start = clock.time()
    for delay in (0.03, 0.01, 0.02):
        clock.call_at(start + delay, lambda delay=delay: fired.append((delay, clock.time() - start)))
    clock.call_at(start + 0.015, lambda: fired.append("cancelled")).cancel()
    clock.call_at(start + 0.04, lambda: clock.call_at(start, lambda: done.set_result(None)))  # due already
    await done
    clock.close()
    clock.close()
    assert [delay for delay, _ in fired] == [0.01, 0.02, 0.03]
    assert all(at >= delay - 0.001 for delay, at in fired)


async def test_a_timer_that_raises_does_not_stop_the_others():
    loop = asyncio.get_running_loop()
    errors = []
    loop.set_exception_handler(lambda _, context: errors.append(context["exception"]))
    clock = KernelClock(loop)
    done = loop.create_future()
    clock.call_at(clock.time(), lambda: 1 / 0)
    clock.call_at(clock.time() + 0.001, lambda: done.set_result(None))
    await asyncio.wait_for(done, 5)
    clock.close()
    assert [type(error) for error in errors] == [ZeroDivisionError]
