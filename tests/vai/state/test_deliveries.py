"""Events reach hooks: kept first, tried again with the same id and a rising attempt, given up in the end."""

import asyncio
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from plughost.contracts.vai.request_bodies import EventSubject, HookEvent
from plughost.errors import InvalidSpec
from plughost.testing.clock import VirtualClock
from plughost.vai.bindings.binding import Scope
from plughost.vai.bindings.bindings import FixedBindings
from plughost.vai.database.database import Database
from plughost.vai.database.errors import DatabaseUnavailable
from plughost.vai.database.open_database import open_database
from plughost.vai.retry_policy import Backoff
from plughost.vai.state.deliveries import LOOK_SECONDS, MAX_CONCURRENT, Deliveries
from plughost.vai.state.delivery_table import Delivery
from plughost.vai.state.leases import ProcessLease
from tests.support import until
from tests.support.postgres import Server
from tests.vai.invocations.conftest import TENANT, bound

PLAIN = Backoff(attempts=4, first=5.0, factor=2.0, jitter=0.0)


def event(number: int = 1) -> HookEvent:
    return HookEvent(
        type="run.completed",
        occurred_at="2026-03-12T19:00:00Z",
        subject=EventSubject("run", f"run_{number}"),
        summary={"task": "Fix auth redirect bug"},
    )


class Hook:
    """Answers as it is told to, and remembers what it was given."""

    def __init__(self, *answers: str) -> None:
        self.answers = list(answers)
        self.given: list[Delivery] = []

    async def __call__(self, delivery: Delivery) -> tuple[str, str | None]:
        self.given.append(delivery)
        answer = self.answers.pop(0) if self.answers else "succeeded"
        return answer, None if answer == "succeeded" else "it said so"


BINDINGS = FixedBindings(bound("reacts", TENANT, f"bind_{number}") for number in range(1, 10))


@pytest.fixture
async def deliveries_to(database: Database):
    made: list[tuple[Deliveries, ProcessLease]] = []
    clock = VirtualClock()

    def make(hook, **other) -> tuple[Deliveries, VirtualClock]:
        options = {"backoff": PLAIN, "bindings": BINDINGS, **other}
        lease = ProcessLease(database, f"host{len(made)}", clock)
        deliveries = Deliveries(database, lease, hook, clock, now=clock.time, **options)
        made.append((deliveries, lease))
        return deliveries, clock

    yield make
    for deliveries, lease in made:
        await deliveries.close()
        await lease.close()


async def status_of(deliveries: Deliveries) -> list[tuple[str, int]]:
    return [(each.status, each.attempt) for each in await deliveries.all()]


async def eventually(deliveries: Deliveries, expected: list[tuple[str, int]]) -> None:
    for _ in range(3000):
        if await status_of(deliveries) == expected:
            return
        await asyncio.sleep(0.01)
    raise AssertionError(await status_of(deliveries))


@pytest.mark.clause("VAI-53", "VAI-54")
async def test_an_acknowledged_delivery_is_made_once(deliveries_to: Callable) -> None:
    hook = Hook()
    deliveries, _ = deliveries_to(hook)
    deliveries.start()
    (delivery_id,) = await deliveries.publish(event(), ["bind_1"], TENANT)
    await eventually(deliveries, [("acked", 1)])
    (given,) = hook.given
    assert (given.delivery_id, given.attempt, given.binding_id, given.event) == (
        delivery_id,
        1,
        "bind_1",
        event(),
    )


@pytest.mark.clause("VAI-54")
async def test_what_fails_is_tried_again_later_with_the_same_id_and_a_rising_attempt(
    deliveries_to: Callable,
) -> None:
    hook = Hook("retryable_failure", "cancelled")
    deliveries, clock = deliveries_to(hook)
    deliveries.start()
    await deliveries.publish(event(), ["bind_1"], TENANT)
    await eventually(deliveries, [("pending", 1)])
    for attempt, wait in ((2, 5.0), (3, 10.0)):
        await until(lambda: clock.pending)
        clock.advance(wait - 0.01)
        await asyncio.sleep(0.05)
        assert len(hook.given) == attempt - 1
        clock.advance(0.02)
        await until(lambda now=attempt: len(hook.given) == now)
        await eventually(deliveries, [("pending" if attempt < 3 else "acked", attempt)])
    assert [each.attempt for each in hook.given] == [1, 2, 3]
    assert len({each.delivery_id for each in hook.given}) == 1


@pytest.mark.clause("VAI-54")
async def test_the_last_attempt_leads_to_the_dead_letters_and_from_there_back(
    deliveries_to: Callable,
) -> None:
    hook = Hook(*["retryable_failure"] * 2)
    deliveries, clock = deliveries_to(hook, backoff=Backoff(attempts=2, first=1.0, jitter=0.0))
    deliveries.start()
    (delivery_id,) = await deliveries.publish(event(), ["bind_1"], TENANT)
    await eventually(deliveries, [("pending", 1)])
    await until(lambda: clock.pending)
    clock.advance(1.1)
    await eventually(deliveries, [("dead", 2)])
    (dead,) = await deliveries.all("dead")
    assert (dead.why, dead.due_at) == ("it said so", None)
    await deliveries.replay(delivery_id)
    await eventually(deliveries, [("acked", 1)])
    with pytest.raises(InvalidSpec, match="no dead letter"):
        await deliveries.replay(delivery_id)


@pytest.mark.clause("VAI-38")
async def test_failed_goes_to_the_dead_letters_at_once(deliveries_to: Callable) -> None:
    deliveries, _ = deliveries_to(Hook("failed"))
    deliveries.start()
    await deliveries.publish(event(), ["bind_1"], TENANT)
    await eventually(deliveries, [("dead", 1)])


async def test_a_fault_of_the_hosts_own_is_no_reason_to_give_up(deliveries_to: Callable) -> None:
    async def broken(delivery: Delivery) -> tuple[str, str | None]:
        raise RuntimeError("no disk")

    deliveries, _ = deliveries_to(broken)
    deliveries.start()
    await deliveries.publish(event(), ["bind_1"], TENANT)
    await eventually(deliveries, [("pending", 1)])
    assert (await deliveries.all())[0].why == "RuntimeError: no disk"


async def test_not_too_many_at_a_time_and_none_forgotten(deliveries_to: Callable) -> None:
    busy, most, gate = 0, 0, asyncio.Event()

    async def slow(delivery: Delivery) -> tuple[str, str | None]:
        nonlocal busy, most
        busy += 1
        most = max(most, busy)
        await gate.wait()
        await asyncio.sleep(0.002)
        busy -= 1
        return "succeeded", None

    deliveries, _ = deliveries_to(slow)
    deliveries.start()
    for number in range(60):
        await deliveries.publish(event(number), ["bind_1"], TENANT)
    await until(lambda: busy == MAX_CONCURRENT)
    gate.set()
    await eventually(deliveries, [("acked", 1)] * 60)
    assert most == MAX_CONCURRENT


async def test_of_two_processes_each_delivers_what_the_other_has_not_claimed(deliveries_to: Callable) -> None:
    first, second = Hook(), Hook()
    one, _ = deliveries_to(first)
    other, _ = deliveries_to(second)
    one.start()
    other.start()
    for number in range(100):
        await (one if number % 2 else other).publish(event(number), ["bind_1"], TENANT)
    await eventually(one, [("acked", 1)] * 100)
    given = [each.delivery_id for each in first.given + second.given]
    assert len(given) == len(set(given)) == 100


HOST = textwrap.dedent(
    """
    import asyncio, sys
    from plughost.clock import best_clock
    from plughost.vai.database.open_database import open_database
    from plughost.vai.state.deliveries import Deliveries
    from plughost.vai.state.leases import ProcessLease
    from tests.vai.invocations.conftest import TENANT
    from tests.vai.state.test_deliveries import BINDINGS, event

    async def hang(delivery):
        print(delivery.delivery_id, delivery.attempt, flush=True)
        await asyncio.Event().wait()

    async def main():
        clock = best_clock(asyncio.get_running_loop())
        database = open_database(sys.argv[1], sys.argv[2] or None)
        lease = ProcessLease(database, sys.argv[3], clock, 0.5)
        deliveries = Deliveries(database, lease, hang, clock, bindings=BINDINGS)
        deliveries.start()
        if sys.argv[3] == "first":
            await deliveries.publish(event(), ["bind_1"], TENANT)
        else:
            await lease.acquire()
        await asyncio.Event().wait()

    asyncio.run(main())
    """
)


@pytest.mark.clause("VAI-54")
async def test_a_killed_host_loses_no_delivery(tmp_path: Path, database_url: str | None) -> None:
    seen = []
    for name in ("first", "second", "third"):
        command = [sys.executable, "-c", HOST, tmp_path, database_url or "", name]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as host:
            assert host.stdout is not None
            seen.append((await asyncio.to_thread(host.stdout.readline)).split())
            os.kill(host.pid, signal.SIGKILL)
    assert [attempt for _, attempt in seen] == ["1", "2", "3"]
    assert len({delivery_id for delivery_id, _ in seen}) == 1


async def test_one_that_was_stopped_past_its_lease_cannot_settle_what_another_has_taken(
    deliveries_to: Callable, database: Database, monkeypatch
) -> None:
    answer = asyncio.Event()

    async def slow(delivery: Delivery) -> tuple[str, str | None]:
        await answer.wait()
        return "failed", "said by the one that was stopped"

    one, _ = deliveries_to(slow)
    one.start()
    await one.publish(event(), ["bind_1"], TENANT)
    await eventually(one, [("leased", 1)])
    one._lease._heartbeats._cancel_timer()  # no heartbeat comes from a process that is stopped
    await database.write(_expire, one._lease.name)
    second = Hook("retryable_failure")
    other, _ = deliveries_to(second)
    other.start()
    await other._lease.acquire()
    await until(lambda: second.given)
    await eventually(one, [("pending", 2)])
    old = one._lease.name
    answer.set()
    await one._lease._heartbeat()
    assert one._lease.name != old, "it goes on under another lease"
    await until(lambda: not one._results and not one._attempts)
    assert await status_of(one) == [("pending", 2)]
    assert (await one.all())[0].why == "it said so"


async def test_nothing_is_claimed_and_lost_between_the_end_of_a_lease_and_its_next_heartbeat(
    deliveries_to: Callable, database: Database
) -> None:
    go_on = asyncio.Event()
    seen: list[str] = []

    async def slow(delivery: Delivery) -> tuple[str, str | None]:
        seen.append(delivery.delivery_id)
        await go_on.wait()
        return "succeeded", None

    one, clock = deliveries_to(slow)
    await one._lease.acquire()
    await database.write(_expire, one._lease.name)
    other, _ = deliveries_to(Hook())
    await other._lease.acquire()  # which ends the lease
    for number in range(3 * MAX_CONCURRENT):
        await one.publish(event(number), ["bind_1"], TENANT)
    for look in (one.start, one.refresh):  # the second one finds all slots taken
        look()
        await until(lambda: one._task.is_idle)
    await one._lease._heartbeat()
    go_on.set()
    clock.advance(LOOK_SECONDS)
    await eventually(one, [("acked", 1)] * 3 * MAX_CONCURRENT)
    assert len({*seen}) == len(seen)


def _expire(lease: str):
    from plughost.vai.database.statements import statement

    yield statement("expire", {None: "UPDATE leases SET expires_at = 0 WHERE lease = :lease"})(lease=lease)


async def test_nobody_waits_for_the_slow_hook_of_a_neighbour(deliveries_to: Callable) -> None:
    quiet, loud = Scope("org_2", "proj_1"), TENANT
    bindings = FixedBindings([bound("reacts", loud, "loud"), bound("reacts", quiet, "quiet")])
    gate, busy = asyncio.Event(), 0

    async def deliver(delivery: Delivery) -> tuple[str, str | None]:
        nonlocal busy
        if delivery.binding_id == "loud":
            busy += 1
            await gate.wait()
        return "succeeded", None

    deliveries, _ = deliveries_to(deliver, bindings=bindings)
    deliveries.start()
    for number in range(100):
        await deliveries.publish(event(number), ["loud"], loud)
    await until(lambda: busy == MAX_CONCURRENT)
    for number in range(3):
        await deliveries.publish(event(number), ["quiet"], quiet)
    for _ in range(500):
        done = [each for each in await deliveries.all("acked") if each.binding_id == "quiet"]
        if len(done) == 3:
            break
        await asyncio.sleep(0.01)
    assert len(done) == 3
    assert busy == MAX_CONCURRENT, "all slots that nobody else wants are used"
    gate.set()
    await eventually(deliveries, [("acked", 1)] * 103)


@pytest.mark.clause("VAI-54")
async def test_tenants_take_turns_when_there_are_more_than_slots(deliveries_to: Callable) -> None:
    tenants = [Scope(f"org_{number}", "proj_1") for number in range(30)]
    served: list[str] = []

    async def hook(delivery: Delivery) -> tuple[str, str | None]:
        served.append(delivery.org_id)
        await asyncio.sleep(0.005)
        return "succeeded", None

    bindings = FixedBindings(bound("reacts", scope, f"bind_{scope.org_id}") for scope in tenants)
    deliveries, _ = deliveries_to(hook, bindings=bindings)
    for number in range(10):
        for scope in tenants:
            await deliveries.publish(event(number), [f"bind_{scope.org_id}"], scope)
    deliveries.start()
    await until(lambda: len(served) == 300)
    half = [served[:150].count(scope.org_id) for scope in tenants]
    assert 4 <= min(half) <= max(half) <= 6, half


async def test_what_nobody_here_serves_is_not_read_again_and_again(
    deliveries_to: Callable, database: Database
) -> None:
    foreign = Scope("org_9", "proj_9")
    deliveries, _ = deliveries_to(Hook())
    for number in range(50):
        await deliveries.publish(event(number), [f"foreign_{number % 5}"], foreign)
    deliveries.start()
    await deliveries.publish(event(1), ["bind_1"], TENANT)
    for _ in range(500):
        if await deliveries.all("acked"):
            break
        await asyncio.sleep(0.01)
    read: list[str] = []
    really = database.read

    async def reading(unit, *args, **named):
        result = await really(unit, *args, **named)
        read.append(f"{getattr(unit, 'statement', unit)!r}")
        assert len(getattr(result, "rows", ())) <= len(BINDINGS.ids())
        return result

    database.read = reading
    deliveries.refresh()
    await until(lambda: read)
    assert all("due_of" in each for each in read)


@pytest.mark.clause("VAI-54")
async def test_a_database_that_fails_stops_deliveries_for_a_while_only(
    deliveries_to: Callable, database: Database
) -> None:
    told: list[str] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, about: told.append(about["message"]))
    really = database.write

    async def fails(delivery: Delivery) -> tuple[str, str | None]:
        async def unavailable(*_: object, **__: object) -> None:
            raise DatabaseUnavailable("no server")

        database.write = unavailable
        return "succeeded", None

    deliveries, clock = deliveries_to(fails)
    await deliveries.publish(event(), ["bind_1"], TENANT)
    deliveries.start()
    await until(lambda: told)
    assert told[0] == "deliveries are waiting for their database"
    database.write = really
    clock.advance(LOOK_SECONDS)
    await eventually(deliveries, [("acked", 1)])


class LosingProxy:
    """A socket in front of the server. Once `lose_next_commit` is set, the server commits the next transaction,
    and the connection is cut before its client learns that."""

    def __init__(self, folder: Path, postgres: Server) -> None:
        self.path = str(folder / ".s.PGSQL.5432")
        self.lose_next_commit = False
        self._server_path = str(postgres.folder / ".s.PGSQL.5432")

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        from_server, to_server = await asyncio.open_unix_connection(self._server_path)
        answering = asyncio.create_task(self._copy(from_server, writer))
        try:
            while data := await reader.read(1 << 16):
                lose = self.lose_next_commit and b"COMMIT" in data
                if lose:
                    self.lose_next_commit = False
                    answering.cancel()
                    await asyncio.wait([answering])
                to_server.write(data)
                if lose:
                    await from_server.read(1 << 16)
                    return
        finally:
            answering.cancel()
            await asyncio.wait([answering])
            for each in (to_server, writer):
                each.close()

    async def _copy(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(1 << 16):
            writer.write(data)
        writer.close()


async def test_a_claim_whose_commit_got_no_answer_is_not_lost(tmp_path: Path, postgres: Server) -> None:
    proxy = LosingProxy(tmp_path, postgres)
    name = urlsplit(await postgres.create()).path
    async with await asyncio.start_unix_server(proxy.serve, proxy.path):
        database = open_database("unused", f"postgresql://plughost@{name}?host={tmp_path}")
        told: list[str] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, about: told.append(about["message"]))
        clock, hook = VirtualClock(), Hook()
        lease = ProcessLease(database, "host", clock)
        deliveries = Deliveries(database, lease, hook, clock, now=clock.time, bindings=BINDINGS)
        await deliveries.publish(event(), ["bind_1"], TENANT)
        await lease.acquire()
        proxy.lose_next_commit = True
        deliveries.start()
        await until(lambda: told)
        assert await status_of(deliveries) == [("leased", 1)]
        clock.advance(LOOK_SECONDS)
        await eventually(deliveries, [("acked", 1)])
        assert len(hook.given) == 1
        await deliveries.close()
        await lease.close()
        await database.close()
