"""Events are handed to deliveries once, whoever looks, and by whoever serves their tenant."""

from __future__ import annotations

import asyncio

from plughost.testing.clock import VirtualClock
from plughost.vai.bindings.binding import Scope
from plughost.vai.bindings.bindings import FixedBindings
from plughost.vai.database.database import Database
from plughost.vai.database.statements import statement
from plughost.vai.state import hooks
from plughost.vai.state.deliveries import Deliveries
from plughost.vai.state.leases import ProcessLease
from plughost.vai.state.outbox import Outbox, insert
from tests.support import until
from tests.vai.invocations.conftest import LAB, Shelf, bound
from tests.vai.state.test_deliveries import Hook, event

COUNT = statement("count", {None: "SELECT count(*) AS number FROM deliveries"})
BINDINGS, SUBSCRIBED = FixedBindings([bound("reacts")]), Shelf(LAB)
ONE, OTHER = Scope("org_1", "proj_1"), Scope("org_2", "proj_1")


async def test_an_event_that_two_processes_saw_is_handed_over_once(database: Database) -> None:
    outbox = Outbox(database)
    for number in range(20):
        await outbox.add(ONE, event(number))
    seen = await database.read(hooks._waiting, [ONE], 0)
    assert len(seen) == 20
    subscribers = {each.number: (each.scope, ["bind_1", "bind_2"]) for each in seen}
    took = await asyncio.gather(*(database.write(hooks._hand_over, subscribers, 1.0) for _ in range(4)))
    assert sorted(map(len, took)) == [0, 0, 0, 2], "the bindings of the one that was first"
    assert (await database.read(COUNT())).value() == 40
    assert await outbox.waiting() == []


async def test_each_sees_the_events_of_its_tenants_in_order(database: Database) -> None:
    outbox = Outbox(database)
    for number in range(3):
        for scope in (ONE, OTHER, Scope("org_1", "proj_2"), Scope("org_1")):
            await outbox.add(scope, event(number))

    async def seen(scopes) -> list[Scope]:
        found = await database.read(hooks._waiting, scopes, 0)
        assert [each.number for each in found] == sorted(each.number for each in found)
        return [each.scope for each in found]

    assert await seen([ONE]) == [ONE] * 3
    assert len(await seen([Scope("org_1")])) == 9, "an organisation includes its projects"
    assert len(await seen([Scope("org_1"), ONE, OTHER])) == 12
    assert len(await seen(None)) == 12
    assert await seen([]) == []


async def test_events_that_nobody_told_of_are_found_all_the_same(database: Database) -> None:
    clock = VirtualClock()
    lease = ProcessLease(database, "host", clock)
    hook = Hook()
    deliveries = Deliveries(database, lease, hook, clock, bindings=BINDINGS)
    watcher = hooks.Hooks(database, Outbox(database), deliveries, BINDINGS, SUBSCRIBED, clock)
    watcher.wake()
    await until(lambda: watcher._task.is_idle)
    await database.write(insert(ONE, event()))  # by a process that was killed then
    clock.advance(hooks.LOOK_SECONDS)
    await until(lambda: hook.given)
    assert {each.binding_id for each in hook.given} <= BINDINGS.ids()
    await watcher.close()
    await deliveries.close()
    await lease.close()
