"""Records are bounded: each by what one plugin may write into it, and all of them by age and size."""

from __future__ import annotations

import asyncio
import json
import sqlite3
import time
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner

import plughost
from plughost.cli.commands.vai.invocations import invocations
from plughost.clock import best_clock
from plughost.testing import VirtualClock
from plughost.vai.database.errors import DatabaseUnavailable
from plughost.vai.database.open_database import FILE, open_database
from plughost.vai.records import journal as journals
from plughost.vai.records.journal import Journal
from plughost.vai.records.record import MAX_TEXT, TRUNCATED, EventLogged, Finished
from plughost.vai.records.records import Records
from plughost.vai.records.recovery import recover
from plughost.vai.records.retention import DAY, RecordLimits, Retention
from tests.support import until
from tests.support.records import RecordBook
from tests.vai.invocations.test_journal import began, ended

NOW = time.time()


def lines(number: int, *, age: float = 0.0, events: int = 1, size: int = 100) -> list[bytes]:
    """The whole life of one invocation that began `age` seconds ago."""
    first = msgspec.structs.replace(began(number), started_at=NOW - age)
    said = [
        EventLogged(
            invocation_id=f"inv_{number}", number=each, at=NOW, event={"type": "x", "text": "y" * size}
        )
        for each in range(events)
    ]
    return [msgspec.json.encode(entry) for entry in (first, *said, ended(number))]


def kept(folder: Path) -> list[str]:
    with RecordBook(str(folder)) as book:
        return [row["invocation_id"] for row in reversed(book.latest(100_000))]


def events_of(folder: Path) -> set[str]:
    with sqlite3.connect(folder / FILE) as connection:
        found = {id for (id,) in connection.execute("SELECT DISTINCT invocation_id FROM invocation_events")}
    connection.close()
    return found


def prune_all(book: RecordBook, retention: Retention) -> int:
    removed, more = 0, True
    while more:
        bite = book.prune(retention, NOW)
        removed, more = removed + bite.invocations, bite.more
    return removed


# One invocation


async def test_a_flood_of_events_is_recorded_up_to_a_limit_and_its_end_is(bench):
    lab = bench(records=RecordLimits(events=10))
    heard = []
    outcome = await lab.tool(do="events", count=500, on_event=heard.append)
    assert outcome.ok
    assert len(heard) == 500, "who listens hears all of them"
    said = [each.event for each in lab.kept.of(EventLogged)]
    assert [each.get("number") for each in said[:10]] == [*range(10)]
    assert len(said) == 11
    assert said[10]["type"] == TRUNCATED
    assert "at most 10 events" in said[10]["message"]
    [end] = lab.kept.of(Finished)
    assert (end.status, end.events_omitted) == ("succeeded", 490)


async def test_large_events_count_by_their_bytes(bench):
    lab = bench(records=RecordLimits(bytes=5000))
    assert (await lab.tool(do="say", text="x" * 4000)).ok
    assert [each.event["type"] for each in lab.kept.of(EventLogged)] == ["progress"]
    assert (await lab.tool(do="say", text="x" * 6000)).ok
    assert [each.event["type"] for each in lab.kept.of(EventLogged)[1:]] == [TRUNCATED]


async def test_events_count_by_the_bytes_that_are_recorded_if_those_are_more(bench):
    lab = bench(records=RecordLimits(bytes=50_000))
    assert (
        await lab.tool(do="short numbers", count=1000, times=8)
    ).ok  # of 5 kB each, and of 19 kB in records
    said = [each.event for each in lab.kept.of(EventLogged)]
    assert [each["type"] for each in said] == ["progress"] * 3 + [TRUNCATED]
    assert said[0]["numbers"] == [1e15] * 1000


async def test_all_tries_of_an_invocation_have_one_limit(bench):
    lab = bench(records=RecordLimits(events=5))
    outcome = await lab.tool(do="retry", times=3, events=4)
    assert (outcome.ok, outcome.retries) == (True, 2)
    said = [each.event["type"] for each in lab.kept.of(EventLogged)]
    assert said == ["progress"] * 5 + [TRUNCATED]
    assert lab.kept.of(Finished)[0].events_omitted == 7


async def test_what_is_told_of_an_end_is_bounded(bench):
    lab = bench()
    run = await lab.tool(do="fail at length")
    assert run.status == "failed"
    [end] = lab.kept.of(Finished)
    assert all(len(text or "") <= MAX_TEXT + 1 for text in (end.message, end.last_words, end.hint))


# All of them


def test_what_is_older_goes_and_what_runs_stays(tmp_path):
    with RecordBook(str(tmp_path)) as book:
        book.insert("host", lines(1, age=40 * DAY))
        book.insert("host", lines(2, age=31 * DAY)[:-1])  # it still runs
        book.insert("host", lines(3, age=29 * DAY))
        assert prune_all(book, Retention()) == 1
    assert kept(tmp_path) == ["inv_2", "inv_3"]
    assert events_of(tmp_path) == {"inv_2", "inv_3"}


def test_the_oldest_go_until_the_rest_fits_and_the_file_shrinks(tmp_path):
    with RecordBook(str(tmp_path)) as book:
        for number in range(40):
            book.insert("host", lines(number, events=4, size=20_000))
        before = book.used
        would = book.would_prune(Retention(age=None, size=before // 2), NOW)
        removed = prune_all(book, Retention(age=None, size=before // 2))
        assert before // 4 < book.used <= before // 2
        assert 15 <= removed <= 25
        assert abs(would.invocations - removed) <= 3
    assert kept(tmp_path) == [f"inv_{number}" for number in range(removed, 40)]
    assert (tmp_path / FILE).stat().st_size < before


def test_without_limits_everything_is_kept(tmp_path):
    with RecordBook(str(tmp_path)) as book:
        book.insert("host", lines(1, age=4000 * DAY))
        assert book.prune(Retention(age=None, size=None), NOW).invocations == 0
        assert book.would_prune(Retention(age=None, size=None), NOW).invocations == 0


def test_a_bite_is_small_however_much_there_is(tmp_path, monkeypatch):
    monkeypatch.setattr("plughost.vai.records.records.MAX_BATCH_BYTES", 0)
    with RecordBook(str(tmp_path)) as book:
        for number in range(3):
            book.insert("host", lines(number, age=31 * DAY))
        bite = book.prune(Retention(), NOW)
        assert (bite.invocations, bite.more) == (1, True)
        assert prune_all(book, Retention()) == 2


def test_events_of_what_was_removed_are_not_kept(tmp_path):
    with RecordBook(str(tmp_path)) as book:
        first, *said, last = lines(1, age=31 * DAY, events=3)
        book.insert("host", [first, *said[:1], last])
        assert prune_all(book, Retention()) == 1
        book.insert("host", said)
    assert events_of(tmp_path) == set()


async def test_a_host_prunes_when_it_starts_and_while_it_records(tmp_path):
    with RecordBook(str(tmp_path)) as book:
        book.insert("host", lines(1, age=31 * DAY))
    clock = VirtualClock()
    database = open_database(str(tmp_path))
    await recover(str(tmp_path), database, Retention())
    journal = Journal(str(tmp_path), Records(database), clock)
    assert kept(tmp_path) == []
    with RecordBook(str(tmp_path)) as book:
        for number in range(2, 700):
            book.insert("host", lines(number, age=31 * DAY))
    clock.advance(journals.PRUNE_EVERY)
    journal.append(began(1000))
    await journal.flush()

    def all_gone() -> bool:
        clock.advance(journals.DELAY)
        return kept(tmp_path) == ["inv_1000"]

    await until(all_gone)
    journal.append(ended(1000))
    await journal.close()
    await database.close()
    assert kept(tmp_path) == ["inv_1000"]


async def test_what_waits_for_a_database_that_takes_nothing_is_bounded(tmp_path, monkeypatch):
    monkeypatch.setattr(journals, "MAX_PENDING", 100_000)
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: None)
    clock = best_clock(asyncio.get_running_loop())
    database = open_database(str(tmp_path))
    journal = Journal(str(tmp_path), Records(database), clock)
    monkeypatch.setattr(Records, "insert", _refused)
    journal.append(began(1))
    for number in range(1000):
        event = {"type": "x", "text": "y" * 1000}
        journal.append(EventLogged(invocation_id="inv_1", number=number, at=NOW, event=event))
    assert journal.pending_bytes < 110_000
    with pytest.raises(plughost.PluginError, match="wait for the database"):
        journal.append(began(2))
    journal.append(ended(1))
    monkeypatch.undo()
    await journal.close()
    await database.close()
    clock.close()
    with RecordBook(str(tmp_path)) as book:
        assert [row["status"] for row in book.latest(9)] == ["succeeded"]


async def _refused(records: Records, host: str, lines: list[bytes]) -> None:
    raise DatabaseUnavailable("the database is locked")


# From the command line


def pruned(folder: Path, *words: str) -> str:
    ran = CliRunner().invoke(invocations, ["prune", "--state", str(folder), *words])
    assert ran.exit_code == 0, ran.output
    return ran.output


def test_the_command_removes_what_it_said_it_would(tmp_path):
    with RecordBook(str(tmp_path)) as book:
        for number, age in enumerate((40, 20, 1)):
            book.insert("host", lines(number, age=age * DAY))
    told = json.loads(pruned(tmp_path, "--older-than", "7d", "--dry-run", "--json"))
    assert (told["invocations"], told["dry_run"]) == (2, True)
    assert len(kept(tmp_path)) == 3
    assert "removed 1 invocations" in pruned(tmp_path), "by default those older than 30 days"
    assert json.loads(pruned(tmp_path, "--older-than", "7d", "--json"))["invocations"] == 1
    assert kept(tmp_path) == ["inv_2"]
    pruned(tmp_path, "--keep-bytes", "1K")
    assert kept(tmp_path) == []


@pytest.mark.parametrize(
    "words", [("--older-than", "soon"), ("--keep-bytes", "-1"), ("--older-than", "1.5d")]
)
def test_other_words_are_refused(tmp_path, words):
    ran = CliRunner().invoke(invocations, ["prune", "--state", str(tmp_path), *words])
    assert ran.exit_code == 2
    assert "is not a" in ran.output


def test_a_count_that_no_database_can_store_is_refused(tmp_path):
    ran = CliRunner().invoke(invocations, ["prune", "--state", str(tmp_path), "--keep-count", "9" * 30])
    assert ran.exit_code == 2
    assert "is not in the range" in ran.output
