"""Events reach hooks: kept first, tried again with the same id and a rising attempt, given up in the end."""

import asyncio
import os
import signal
import sqlite3
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from plughost.contracts.vai.request_bodies import EventSubject, HookEvent
from plughost.errors import InvalidSpec
from plughost.testing.clock import VirtualClock
from plughost.vai import sqlite
from plughost.vai.retry_policy import Backoff
from plughost.vai.state.deliveries import (
    FILE,
    MAX_CONCURRENT,
    MIGRATIONS,
    RETRY_SECONDS,
    Deliveries,
    Delivery,
)
from tests.support import until
from tests.vai.invocations.conftest import TENANT

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


@pytest.fixture
async def deliveries_to(tmp_path: Path):
    made: list[Deliveries] = []
    clock = VirtualClock()

    def make(hook, **other) -> tuple[Deliveries, VirtualClock]:
        options = {"backoff": PLAIN, "serves": lambda scope: True, **other}
        deliveries = Deliveries(str(tmp_path), hook, clock, now=clock.time, **options)
        made.append(deliveries)
        return deliveries, clock

    yield make
    for each in made:
        await each.close()


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
    await eventually(deliveries, [("acknowledged", 1)])
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
        await eventually(deliveries, [("pending" if attempt < 3 else "acknowledged", attempt)])
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
    await eventually(deliveries, [("acknowledged", 1)])
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


async def test_the_same_event_is_delivered_once_to_each(deliveries_to: Callable) -> None:
    hook = Hook()
    deliveries, _ = deliveries_to(hook)
    deliveries.start()
    assert len(await deliveries.publish(event(), ["bind_1", "bind_2"], TENANT)) == 2
    assert await deliveries.publish(event(), ["bind_1", "bind_2"], TENANT) == []
    await eventually(deliveries, [("acknowledged", 1)] * 2)
    assert {each.binding_id for each in hook.given} == {"bind_1", "bind_2"}


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
    await eventually(deliveries, [("acknowledged", 1)] * 60)
    assert most == MAX_CONCURRENT


async def test_of_two_hosts_one_delivers_and_the_other_takes_over(deliveries_to: Callable) -> None:
    first, second = Hook(), Hook()
    one, clock = deliveries_to(first)
    other, _ = deliveries_to(second)
    one.start()
    await one.publish(event(1), ["bind_1"], TENANT)
    await eventually(one, [("acknowledged", 1)])
    other.start()
    await other.publish(event(2), ["bind_1"], TENANT)
    await until(lambda: clock.pending)
    assert not second.given
    await one.close()
    clock.advance(6.0)
    await until(lambda: second.given)
    assert [each.event for each in second.given] == [event(2)]


HOST = textwrap.dedent(
    """
    import asyncio, sys
    from plughost.clock import best_clock
    from plughost.vai.state.deliveries import Deliveries
    from tests.vai.invocations.conftest import TENANT
    from tests.vai.invocations.test_deliveries import event

    async def hang(delivery):
        print(delivery.delivery_id, delivery.attempt, flush=True)
        await asyncio.Event().wait()

    async def main():
        deliveries = Deliveries(
            sys.argv[1], hang, best_clock(asyncio.get_running_loop()), serves=lambda scope: True
        )
        deliveries.start()
        if sys.argv[2] == "publish":
            await deliveries.publish(event(), ["bind_1"], TENANT)
        await asyncio.Event().wait()

    asyncio.run(main())
    """
)


async def test_a_delivery_of_an_earlier_version_is_nobodys_we_know(deliveries_to, tmp_path: Path) -> None:
    earlier = sqlite.open_shared_database(str(tmp_path / FILE), MIGRATIONS[:1])
    row = ("a", "bind_1", msgspec.json.encode(event()), 0.0)
    earlier.execute(
        "INSERT INTO deliveries (delivery_id, binding_id, event, due_at) VALUES (?, ?, ?, ?)", row
    )
    earlier.close()
    hook = Hook()
    deliveries, _ = deliveries_to(hook, serves=lambda scope: scope == TENANT)
    deliveries.start()
    await deliveries.publish(event(2), ["bind_1"], TENANT)
    await until(lambda: hook.given)
    await eventually(deliveries, [("pending", 0), ("acknowledged", 1)])
    assert [each.event for each in hook.given] == [event(2)]


@pytest.mark.clause("VAI-54")
def test_a_killed_host_loses_no_delivery(tmp_path: Path) -> None:
    seen = []
    for round_ in range(3):
        command = [sys.executable, "-c", HOST, tmp_path, "publish" if round_ == 0 else "go on"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as host:
            assert host.stdout is not None
            seen.append(host.stdout.readline().split())
            os.kill(host.pid, signal.SIGKILL)
    assert [attempt for _, attempt in seen] == ["1", "2", "3"]
    assert len({delivery_id for delivery_id, _ in seen}) == 1


@pytest.mark.clause("VAI-54")
async def test_a_locked_database_stops_deliveries_for_a_while_only(
    deliveries_to, tmp_path: Path, monkeypatch
) -> None:
    monkeypatch.setattr(sqlite, "BUSY_TIMEOUT", 0.01)
    told: list[str] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, about: told.append(about["message"]))
    other = sqlite3.connect(":memory:")

    async def locks_it(delivery: Delivery) -> tuple[str, str | None]:
        nonlocal other
        other = sqlite3.connect(tmp_path / FILE, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        return "succeeded", None

    deliveries, clock = deliveries_to(locks_it)
    await deliveries.publish(event(), ["bind_1"], TENANT)
    deliveries.start()
    await until(lambda: told)
    other.execute("ROLLBACK")
    other.close()
    clock.advance(RETRY_SECONDS)
    await until(lambda: not deliveries._unsaved)
    assert [each.status for each in await deliveries.all()] == ["acknowledged"]
