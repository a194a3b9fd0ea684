"""The slots of background work, which tenants share."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from plughost.vai.invocations.concurrency import ConcurrencyLimit
from plughost.vai.invocations.fair_limit import BindingShare, FairLimit

TENANTS = ["one", "two", "three", "four"]
BINDINGS = ["a", "b"]


async def test_every_tenant_has_its_turn_when_there_are_more_than_slots() -> None:
    limit = FairLimit(2, 1)
    turns: list[str] = []

    async def work(tenant: str, times: int) -> None:
        for _ in range(times):
            share = limit.of(tenant, f"{tenant}.a")
            await share.enter()
            turns.append(tenant)
            await asyncio.sleep(0)
            share.leave()

    tenants = [f"tenant {number}" for number in range(8)]
    # Three workers for each tenant: one always waits, so that a tenant never leaves the queue.
    await asyncio.gather(*(work(tenant, 20) for tenant in tenants for _ in range(3)))
    for start in range(0, len(turns) - 60, 10):
        assert {*turns[start : start + 30]} == {*tenants}, "nobody has many turns before all others have one"


async def test_a_busy_tenant_leaves_the_reserved_slot_and_uses_all_others() -> None:
    limit = FairLimit(4, 1)
    busy = ConcurrencyLimit(16, limit.of("busy", "busy.a"))
    tasks = [asyncio.create_task(busy.enter()) for _ in range(16)]
    await asyncio.sleep(0)
    assert sum(task.done() for task in tasks) == 4
    other = ConcurrencyLimit(16, limit.of("other", "other.a"))
    assert other.enter_now(), "a newcomer does not wait"
    assert not other.enter_now()
    second = asyncio.create_task(other.enter())
    await asyncio.sleep(0)
    for _ in range(2):
        assert not second.done()
        busy.leave()
        await asyncio.sleep(0)
    assert second.done(), "then whoever has fewer is first"
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)
    assert len(limit) == 0


async def test_one_that_gives_up_just_when_a_slot_is_granted_passes_it_on() -> None:
    limit = FairLimit(1, 0)
    inside, first, second = (limit.of(tenant, f"{tenant}.a") for tenant in ("inside", "first", "second"))
    for granted_first in (True, False):
        await inside.enter()
        gives_up, stays = asyncio.create_task(first.enter()), asyncio.create_task(second.enter())
        await asyncio.sleep(0)
        steps = [inside.leave, gives_up.cancel]
        for step in steps if granted_first else reversed(steps):
            step()
        async with asyncio.timeout(10):
            await asyncio.wait([gives_up])
            await stays
        assert gives_up.cancelled()
        assert not first.enter_now()
        second.leave()


async def test_an_equal_share_is_the_same_share() -> None:
    limit = FairLimit(1, 0)
    assert limit.of("one", "a") == limit.of("one", "a")
    assert limit.of("one", "a") != limit.of("two", "a")
    assert limit.of("one", "a") != FairLimit(1, 0).of("one", "a")


class Guest:
    """One that waits for a slot or has it."""

    def __init__(self, task: asyncio.Task[None], tenant: str, binding: str) -> None:
        self.task = task
        self.tenant = tenant
        self.binding = binding


class SharedSlots(RuleBasedStateMachine):
    """Guests come, leave and give up in any order, also several before the event loop runs."""

    @initialize(slots=st.integers(1, 4), reserved=st.integers(0, 2))
    def open(self, slots: int, reserved: int) -> None:
        self.slots, self.reserved = slots, reserved
        self.loop = asyncio.new_event_loop()
        self.limit = FairLimit(slots, reserved)
        self.waiting: list[Guest] = []
        self.inside: list[Guest] = []

    def share(self, guest: Guest) -> BindingShare:
        return self.limit.of(guest.tenant, f"{guest.tenant}.{guest.binding}")

    def settle(self) -> list[Guest]:
        """Runs the event loop until nothing moves, and returns who got a slot."""

        async def rest() -> None:
            for _ in range(4):
                await asyncio.sleep(0)

        self.loop.run_until_complete(rest())
        over = [guest for guest in self.waiting if guest.task.done()]
        self.waiting = [guest for guest in self.waiting if not guest.task.done()]
        entered = [guest for guest in over if not guest.task.cancelled()]
        self.inside += entered
        return entered

    def has_room(self, tenant: str) -> bool:
        has_some = any(guest.tenant == tenant for guest in self.inside)
        return len(self.inside) < (self.slots if has_some else self.slots + self.reserved)

    @rule(tenant=st.sampled_from(TENANTS), binding=st.sampled_from(BINDINGS))
    def come(self, tenant: str, binding: str) -> None:
        had_room = self.has_room(tenant)
        share = self.limit.of(tenant, f"{tenant}.{binding}")
        guest = Guest(self.loop.create_task(share.enter()), tenant, binding)
        self.waiting.append(guest)
        assert (guest in self.settle()) == had_room, "a slot that is free is used, and no other"

    @precondition(lambda self: self.inside)
    @rule(data=st.data())
    def leave(self, data: Any) -> None:
        guest = data.draw(st.sampled_from(self.inside))
        self.inside.remove(guest)
        waiting = [*self.waiting]
        slots = Counter(each.tenant for each in self.inside)
        of_binding = Counter((each.tenant, each.binding) for each in self.inside)
        could = [each for each in waiting if self.has_room(each.tenant)]
        self.share(guest).leave()
        entered = self.settle()
        assert len(entered) == min(len(could), 1)
        for each in entered:
            assert slots[each.tenant] == min(slots[other.tenant] for other in waiting)
            siblings = [other for other in waiting if other.tenant == each.tenant]
            fewest = min(of_binding[other.tenant, other.binding] for other in siblings)
            assert of_binding[each.tenant, each.binding] == fewest
            assert each is next(other for other in siblings if other.binding == each.binding), (
                "first in, first out"
            )

    @precondition(lambda self: self.waiting)
    @rule(data=st.data())
    def give_up(self, data: Any) -> None:
        data.draw(st.sampled_from(self.waiting)).task.cancel()
        assert not self.settle()

    @precondition(lambda self: self.inside and self.waiting)
    @rule(data=st.data(), left_first=st.booleans())
    def leave_and_give_up_at_the_same_moment(self, data: Any, left_first: bool) -> None:
        leaves = data.draw(st.sampled_from(self.inside))
        gives_up = data.draw(st.lists(st.sampled_from(self.waiting), unique=True, min_size=1))
        self.inside.remove(leaves)
        if left_first:
            self.share(leaves).leave()
        for guest in gives_up:
            guest.task.cancel()
        if not left_first:
            self.share(leaves).leave()
        self.settle()

    @invariant()
    def never_more_than_the_limit_and_nobody_waits_for_a_free_slot(self) -> None:
        if not hasattr(self, "limit"):
            return
        assert len(self.inside) <= self.slots + self.reserved
        assert len(self.limit) == len(self.waiting)
        assert not [guest for guest in self.waiting if self.has_room(guest.tenant)]

    def teardown(self) -> None:
        if not hasattr(self, "limit"):
            return
        while self.inside or self.waiting:  # whoever waits has a turn, if those inside leave
            assert self.inside
            guest = self.inside.pop(0)
            self.share(guest).leave()
            self.settle()
        assert len(self.limit) == 0
        assert not self.limit._waiting
        one = self.limit.of("one", "one.a")
        assert [one.enter_now() for _ in range(self.slots + 1)] == [True] * self.slots + [False]
        others = [self.limit.of(f"new {number}", f"new {number}") for number in range(self.reserved + 1)]
        assert [each.enter_now() for each in others] == [True] * self.reserved + [False], "no slot is lost"
        self.loop.close()


TestSharedSlots = SharedSlots.TestCase
TestSharedSlots.settings = settings(deadline=None, max_examples=60, stateful_step_count=40)
