"""The turns of a binding's invocations."""

import asyncio

from hypothesis import given, settings
from hypothesis import strategies as st

from plughost.vai.invocations.concurrency import ConcurrencyLimit


async def play(most: int, steps: list[tuple[str, int]]) -> None:
    gate = ConcurrencyLimit(most)
    waiting: list[asyncio.Task[None]] = []
    inside = 0
    for step, which in steps:
        if step == "come":
            waiting.append(asyncio.create_task(gate.enter()))
            if which % 2:
                await asyncio.sleep(0)
        elif step == "leave" and inside:
            gate.leave()
            inside -= 1
        elif step == "go away" and waiting:
            waiting[which % len(waiting)].cancel()
            if which % 2:
                await asyncio.sleep(0)
        if which % 3 == 0:
            await asyncio.sleep(0)
        for task in [task for task in waiting if task.done()]:
            waiting.remove(task)
            inside += not task.cancelled()
        assert inside <= most
    for task in waiting:
        task.cancel()
    done = await asyncio.gather(*waiting, return_exceptions=True)
    inside += sum(each is None for each in done)
    for _ in range(inside):
        gate.leave()
    assert len(gate) == 0
    assert [gate.enter_now() for _ in range(most + 1)] == [True] * most + [False], "no place is lost"


steps = st.lists(st.tuples(st.sampled_from(["come", "leave", "go away"]), st.integers(0, 11)), max_size=60)


@settings(deadline=None)
@given(st.integers(1, 4), steps)
def test_never_more_than_there_is_room_for_and_no_place_is_lost(
    most: int, steps: list[tuple[str, int]]
) -> None:
    asyncio.run(play(most, steps))


async def test_one_that_goes_away_just_when_somebody_leaves() -> None:
    gate = ConcurrencyLimit(1)
    await gate.enter()
    first, second = asyncio.create_task(gate.enter()), asyncio.create_task(gate.enter())
    await asyncio.sleep(0)
    first.cancel()
    gate.leave()
    await second
    assert first.cancelled()
    assert not gate.enter_now()


async def test_behind_two_gates_there_is_room_behind_both_or_none() -> None:
    parent = ConcurrencyLimit(1)
    one, other = ConcurrencyLimit(2, parent), ConcurrencyLimit(2, parent)
    assert one.enter_now()
    assert not other.enter_now()
    waiting = asyncio.create_task(other.enter())
    await asyncio.sleep(0)
    assert not waiting.done()
    one.leave()
    await waiting
    assert not one.enter_now()
    other.leave()
    assert one.enter_now()


async def test_who_goes_away_between_two_gates_gives_the_first_place_back() -> None:
    parent = ConcurrencyLimit(1)
    own = ConcurrencyLimit(1, parent)
    await parent.enter()
    waiting = asyncio.create_task(own.enter())
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.wait([waiting])
    assert waiting.cancelled()
    parent.leave()
    assert own.enter_now()
