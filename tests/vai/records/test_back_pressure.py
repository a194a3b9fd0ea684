"""Records that come faster than the database takes them wait in files; callers are slowed, and memory stays flat."""

from __future__ import annotations

import asyncio
import resource
import time
from pathlib import Path

import pytest

from plughost.vai.database.errors import DatabaseUnavailable
from plughost.vai.records import journal as journals
from plughost.vai.records.journal import SUFFIX, Journal
from plughost.vai.records.records import Records
from tests.support.records import RecordBook, recover
from tests.vai.invocations.test_journal import began, ended, opened


async def test_a_caller_waits_until_the_database_has_caught_up(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(journals, "CATCH_UP", 50_000)
    async with opened(tmp_path) as journal:
        number = 0
        while not journal.is_behind:
            journal.append(began(number))
            journal.append(ended(number))
            number += 1
        await journal.catch_up()
        assert not journal.is_behind
        await journal.flush()
        assert journal.pending_bytes == 0
    with RecordBook(tmp_path) as book:
        assert {row["status"] for row in book.latest(number)} == {"succeeded"}


async def test_nobody_waits_for_a_database_that_does_not_work(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(journals, "CATCH_UP", 0)
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: None)
    async with opened(tmp_path) as journal:
        calls = 0

        async def fails(records: Records, host: str, lines: list[bytes]) -> None:
            nonlocal calls
            calls += 1
            raise DatabaseUnavailable("no server")

        with monkeypatch.context() as patched:
            patched.setattr(Records, "insert", fails)
            journal.append(began(1))
            await asyncio.wait_for(journal.catch_up(), 10)
            assert journal.is_behind
            assert calls == 1, "it does not try again and again"
        journal.append(ended(1))
    with RecordBook(tmp_path) as book:
        assert [row["status"] for row in book.latest(9)] == ["succeeded"]


async def test_closing_takes_a_bounded_time_and_the_next_host_has_everything(
    tmp_path: Path, monkeypatch
) -> None:
    monkeypatch.setattr(journals, "CLOSE_SECONDS", 0.1)
    release = asyncio.Event()

    async def hangs(records: Records, host: str, lines: list[bytes]) -> None:
        await release.wait()

    with monkeypatch.context() as patched:
        patched.setattr(Records, "insert", hangs)
        async with opened(tmp_path) as journal:
            journal.append(began(1))
            journal.append(ended(1))
            before = time.monotonic()
            await journal.close()
            assert time.monotonic() - before < 5
    assert len([*tmp_path.glob(f"*{SUFFIX}")]) == 1
    recover(tmp_path)
    with RecordBook(tmp_path) as book:
        assert [row["status"] for row in book.latest(9)] == ["succeeded"]


async def write_many(journal: Journal, count: int) -> None:
    for number in range(count):
        if journal.is_behind:
            await journal.catch_up()
        journal.append(began(number))
        journal.append(ended(number))
        if number % 100 == 0:
            await asyncio.sleep(0)


@pytest.mark.soak
@pytest.mark.timeout(600)
async def test_memory_stays_flat_at_any_rate(tmp_path: Path) -> None:
    async with opened(tmp_path) as journal:
        await write_many(journal, 20_000)
        await journal.flush()
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        await write_many(journal, 400_000)
        grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
        assert grown < 64 + journals.MAX_PENDING / (1 << 20), (
            f"{grown:.0f} MiB"
        )  # pages of the mapped files count
        await journal.flush()
