"""Events and deliveries are removed by age and by count, in small batches, and never before their time."""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from plughost.cli.commands.vai.invocations import invocations
from plughost.testing import VirtualClock
from plughost.vai.bindings.bindings import FixedBindings
from plughost.vai.database.database import Database, Steps
from plughost.vai.database.open_database import FILE, open_database
from plughost.vai.database.statements import statement
from plughost.vai.records import journal as journals
from plughost.vai.records.journal import Journal
from plughost.vai.records.records import Records
from plughost.vai.records.recovery import recover
from plughost.vai.records.retention import DAY, PrunedState, Retention
from plughost.vai.runtime import VaiRuntime
from plughost.vai.state import retention as state_retention
from plughost.vai.state.delivery_table import REPLAY
from plughost.vai.state.retention import StatePruner
from tests.support import until
from tests.vai.invocations.test_journal import began, ended

NOW = time.time()
KEEP_ALL = Retention(event_age=None, delivery_age=None)

EVENT = statement(
    "event",
    {
        None: """INSERT INTO events (number, org_id, project_id, event, created_at, pending)
            VALUES (:number, 'org_1', 'proj_1', '{}', :created_at, :pending)"""
    },
)
DELIVERY = statement(
    "delivery",
    {
        None: """INSERT INTO deliveries (number, delivery_id, binding_id, org_id, project_id, event_number,
            attempt, due_at, status, lease, settled_at)
            VALUES (:number, :id, :id, 'org_1', 'proj_1', :event, 1, :due_at, :status, :lease, :settled_at)"""
    },
)
EVENTS = statement("events", {None: "SELECT number FROM events ORDER BY number"})
DELIVERIES = statement("deliveries", {None: "SELECT number FROM deliveries ORDER BY number"})


def event(number: int, age: float = 0.0, *, pending: bool = False) -> dict[str, Any]:
    return {"number": number, "created_at": NOW - age, "pending": pending}


def delivery(number: int, event: int, status: str = "acked", age: float = 0.0) -> dict[str, Any]:
    settled = status in ("acked", "dead")
    return {
        "number": number,
        "id": f"del_{number}",
        "event": event,
        "due_at": None if settled else NOW - age,
        "status": status,
        "lease": "host.0" if status == "leased" else None,
        "settled_at": NOW - age if settled else None,
    }


def _store(events: Iterable[dict[str, Any]], deliveries: Iterable[dict[str, Any]]) -> Steps[None]:
    yield EVENT.each(events)
    yield DELIVERY.each(deliveries)


async def store(database: Database, events: Iterable[Any], deliveries: Iterable[Any] = ()) -> None:
    await database.write(_store, [*events], [*deliveries])


async def left(database: Database) -> tuple[list[int], list[int]]:
    events, deliveries = await database.read(EVENTS()), await database.read(DELIVERIES())
    return [row["number"] for row in events.rows], [row["number"] for row in deliveries.rows]


async def prune_all(database: Database, retention: Retention) -> tuple[int, int]:
    """What was removed in all batches, which must be what the dry run has said."""
    pruner = StatePruner(database, retention)
    would, events, deliveries, more = await pruner.would_prune(NOW), 0, 0, True
    while more:
        batch = await pruner.prune(NOW)
        events, deliveries, more = events + batch.events, deliveries + batch.deliveries, batch.more
    assert (would.events, would.deliveries) == (events, deliveries)
    return events, deliveries


async def test_old_ones_go_and_what_is_not_over_stays(database: Database) -> None:
    old = 31 * DAY
    await store(
        database,
        [
            event(1, old),
            event(2, old, pending=True),
            event(3, 29 * DAY),
            *(event(n, old) for n in range(4, 9)),
        ],
        [
            delivery(1, 4, "acked", old),
            delivery(2, 5, "dead", old),
            delivery(3, 6, "pending", old),
            delivery(4, 7, "leased", old),
            delivery(5, 8, "acked", 29 * DAY),
        ],
    )
    assert await prune_all(database, Retention()) == (3, 2)
    assert await left(database) == ([2, 3, 6, 7, 8], [3, 4, 5])


async def test_an_event_stays_as_long_as_one_of_its_deliveries(database: Database) -> None:
    await store(
        database, [event(1, 40 * DAY)], [delivery(1, 1, "acked", 40 * DAY), delivery(2, 1, "dead", 1 * DAY)]
    )
    assert await prune_all(database, Retention()) == (0, 1)
    assert await prune_all(database, Retention(delivery_age=None)) == (0, 0)
    assert await prune_all(database, Retention(delivery_age=DAY / 2)) == (1, 1)


async def test_past_a_count_the_oldest_go_also_those_of_one_moment(database: Database) -> None:
    await store(
        database,
        [event(n, 10.0 - n // 4) for n in range(1, 11)] + [event(11, pending=True)],
        [delivery(n, n, "acked" if n % 2 else "dead", 10.0 - n // 4) for n in range(1, 8)]
        + [delivery(8, 8, "pending", 99.0)],
    )
    limits = Retention(event_age=None, event_count=2, delivery_age=None, delivery_count=3)
    assert await prune_all(database, limits) == (4, 4)
    assert await left(database) == ([5, 6, 7, 8, 9, 10, 11], [5, 6, 7, 8])
    assert await prune_all(database, limits) == (0, 0)


async def test_count_zero_removes_everything_that_is_over(database: Database) -> None:
    await store(
        database, [event(1), event(2), event(3, pending=True)], [delivery(1, 1), delivery(2, 2, "pending")]
    )
    assert await prune_all(database, Retention(event_count=0, delivery_count=0)) == (1, 1)
    assert await left(database) == ([2, 3], [2])


async def test_without_limits_all_are_kept(database: Database) -> None:
    await store(database, [event(1, 4000 * DAY), event(2, 4000 * DAY)], [delivery(1, 1, "dead", 4000 * DAY)])
    assert await prune_all(database, KEEP_ALL) == (0, 0)


async def test_a_batch_is_small_however_much_there_is(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(state_retention, "MAX_BATCH_SECONDS", 0.0)
    monkeypatch.setattr(state_retention, "CHUNK", 2)
    await store(
        database,
        [event(n, 31 * DAY) for n in range(1, 8)],
        [delivery(n, n, "acked", 31 * DAY) for n in range(1, 4)],
    )
    pruner = StatePruner(database, Retention())
    batches = [await pruner.prune(NOW) for _ in range(5)]
    assert [(each.events, each.deliveries, each.more) for each in batches] == [
        (0, 2, True), (2, 1, True), (2, 0, True), (2, 0, True), (1, 0, False),
    ]  # fmt: skip


async def test_old_events_that_must_stay_do_not_hide_others(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(state_retention, "PAGE_SIZE", 4)
    await store(database, [event(n, 50 * DAY, pending=n < 20) for n in range(1, 31)])
    assert await prune_all(database, Retention()) == (11, 0)
    assert (await left(database))[0] == [*range(1, 20)]


async def test_a_dead_letter_that_is_replayed_meanwhile_stays(database: Database) -> None:
    await store(database, [event(1, 50 * DAY)], [delivery(1, 1, "dead", 50 * DAY)])
    await database.write(REPLAY(delivery_id="del_1", now=NOW))
    assert await prune_all(database, Retention()) == (0, 0)


async def test_an_event_that_got_a_delivery_since_it_was_found_stays(database: Database) -> None:
    await store(database, [event(1), event(2, pending=True), event(3)], [delivery(1, 3)])
    assert await database.write(state_retention._delete_events, [1, 2, 3]) == (1, True)
    assert (await left(database))[0] == [2, 3]


async def test_a_host_prunes_when_it_starts(database: Database, tmp_path: Path) -> None:
    await store(database, [event(1, 31 * DAY), event(2)], [delivery(1, 1, "acked", 31 * DAY)])
    await recover(str(tmp_path), database, Retention())
    assert await left(database) == ([2], [])


async def test_a_runtime_prunes_while_it_records(tmp_path: Path, database_url: str | None) -> None:
    clock = VirtualClock()
    async with VaiRuntime(
        str(tmp_path),
        None,
        FixedBindings([]),
        database=database_url,
        clock=clock,  # type: ignore[arg-type]
    ) as runtime:
        count = 3 * state_retention.PAGE_SIZE
        await store(
            runtime.database,
            [event(n, 31 * DAY) for n in range(1, count)],
            [delivery(n, n, "acked", 31 * DAY) for n in range(1, 100)],
        )
        clock.advance(journals.PRUNE_EVERY)
        runtime.journal.append(began(1))
        await runtime.journal.flush()
        for _ in range(1000):
            if await left(runtime.database) == ([], []):
                break
            clock.advance(journals.DELAY)
            await runtime.journal.flush()
        assert await left(runtime.database) == ([], [])
        runtime.journal.append(ended(1))


async def test_lines_are_stored_before_anything_is_pruned(
    tmp_path: Path,
) -> None:
    seen: list[int] = []
    database = open_database(str(tmp_path))
    records = Records(database)

    class Watching:
        async def prune(self, now: float) -> PrunedState:
            seen.append(len(await records.latest(9)))
            return PrunedState(more=len(seen) < 3)

    clock = VirtualClock()
    journal = Journal(str(tmp_path), records, clock, None, [Watching()])
    journal.append(began(1))

    def all_seen() -> bool:
        clock.advance(journals.DELAY)
        return len(seen) == 3

    await until(all_seen)
    assert seen == [1, 1, 1]
    await journal.close()
    await database.close()


# From the command line


def pruned(folder: Path, *words: str) -> str:
    ran = CliRunner().invoke(invocations, ["prune", "--state", str(folder), *words])
    assert ran.exit_code == 0, ran.output
    return ran.output


@pytest.fixture
async def state_folder(tmp_path: Path) -> Path:
    database = open_database(str(tmp_path))
    ages = (40 * DAY, 20 * DAY, 1 * DAY)
    await store(
        database,
        [event(n, age) for n, age in enumerate(ages, 1)],
        [delivery(n, n, "dead", age) for n, age in enumerate(ages, 1)],
    )
    await database.close()
    return tmp_path


def counted(folder: Path) -> tuple[int, int]:
    connection = sqlite3.connect(folder / FILE)
    try:
        count = "SELECT (SELECT count(*) FROM events), (SELECT count(*) FROM deliveries)"
        found: tuple[int, int] = connection.execute(count).fetchone()
        return found
    finally:
        connection.close()


def test_the_command_removes_what_its_dry_run_has_said(state_folder: Path) -> None:
    told = json.loads(pruned(state_folder, "--older-than", "7d", "--dry-run", "--json"))
    assert (told["events"], told["deliveries"], told["invocations"]) == (2, 2, 0)
    assert counted(state_folder) == (3, 3)
    assert "removed 1 events and 1 deliveries" in pruned(state_folder), "by default those older than 30 days"
    told = json.loads(pruned(state_folder, "--older-than", "7d", "--json"))
    assert (told["events"], told["deliveries"]) == (1, 1)
    assert counted(state_folder) == (1, 1)


def test_the_command_keeps_as_many_as_it_is_told(state_folder: Path) -> None:
    told = json.loads(pruned(state_folder, "--keep-count", "1", "--json"))
    assert (told["events"], told["deliveries"]) == (0, 0), "that was said of invocations only"
    told = json.loads(pruned(state_folder, "--keep-deliveries", "2", "--keep-events", "0", "--json"))
    assert (told["events"], told["deliveries"]) == (1, 1)
    assert counted(state_folder) == (2, 2)
