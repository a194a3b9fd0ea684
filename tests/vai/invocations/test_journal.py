"""Records outlive the host that wrote them, and every invocation ends in them once."""

import asyncio
import os
import signal
import sqlite3
import subprocess
import sys
import textwrap
import time
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest

import plughost
from plughost.clock import best_clock
from plughost.vai.bindings.binding import BindingPolicy
from plughost.vai.bindings.permissions import AskedPermissions, grant
from plughost.vai.database import sqlite
from plughost.vai.database.errors import DatabaseUnavailable
from plughost.vai.database.open_database import open_database
from plughost.vai.records.journal import SUFFIX, Journal
from plughost.vai.records.record import EventLogged, Finished, RecordedBinding, Started
from plughost.vai.records.records import Records
from tests.support.records import RecordBook, recover

GRANTED = grant(
    AskedPermissions(execution_class="isolated", timeout_ms=1000, max_concurrency=1),
    [("host", BindingPolicy())],
    trusted_inline=False,
)

BOUND = RecordedBinding(
    export_kind="tool",
    export_id="jira_search",
    binding_id="bind_1",
    package_id="acme/devkit",
    package_version="0.1.0",
    package_digest="sha256:00",
    granted=GRANTED,
)


START = float(int(time.time()))
"""What began long ago would not be kept."""


def began(number: int, **other: object) -> Started:
    return Started(
        invocation_id=f"inv_{number}",
        bound=msgspec.Raw(msgspec.json.encode(BOUND)),
        started_at=START + number,
        org_id="org_1",
        **other,  # type: ignore[arg-type]
    )


def ended(number: int, status: str = "succeeded", **other: object) -> Finished:
    return Finished(invocation_id=f"inv_{number}", ended_at=2000.0, status=status, **other)  # type: ignore[arg-type]


@asynccontextmanager
async def opened(folder: Path):
    """A journal in front of the database of a folder."""
    clock = best_clock(asyncio.get_running_loop())
    database = open_database(str(folder))
    journal = Journal(str(folder), Records(database), clock)
    yield journal
    await journal.close()
    await database.close()
    clock.close()


@pytest.fixture
async def journal(tmp_path: Path):
    async with opened(tmp_path) as journal:
        yield journal


@pytest.mark.clause("VAI-94", "VAI-91")
async def test_what_is_told_is_in_the_book(journal: Journal, tmp_path: Path) -> None:
    journal.append(
        began(
            1, project_id="proj_1", session_id="s", chain_id="c", run_id="r", trace_id="t", execution_id="x"
        )
    )
    journal.append(
        EventLogged(
            invocation_id="inv_1", number=0, at=1001.5, event={"type": "progress", "message": "working"}
        )
    )
    journal.append(ended(1, "retryable_failure", reason="crashed", retries=2, confined_by=("seccomp",)))
    await journal.flush()
    with RecordBook(str(tmp_path)) as book:
        told = book.get("inv_1")
        assert told is not None
        expected = {
            "invocation_id": "inv_1", "export_kind": "tool", "export_id": "jira_search", "binding_id": "bind_1",
            "package_id": "acme/devkit", "package_version": "0.1.0", "execution_class": "isolated",
            "started_at": START + 1, "ended_at": 2000.0, "status": "retryable_failure", "retries": 2,
            "org_id": "org_1", "project_id": "proj_1", "session_id": "s", "chain_id": "c", "run_id": "r",
            "trace_id": "t", "execution_id": "x", "reason": "crashed", "confined_by": ["seccomp"],
        }  # fmt: skip
        assert expected.items() <= told.items()
        assert told["granted"]["scopes"] == []
        assert told["events"] == [{"at": 1001.5, "event": {"type": "progress", "message": "working"}}]
        assert book.get("inv_2") is None


async def test_the_first_end_counts_and_lines_taken_twice_change_nothing(
    journal: Journal, tmp_path: Path
) -> None:
    journal.append(began(1))
    journal.append(ended(1, "cancelled", reason="deadline_exceeded"))
    journal.append(ended(1, "succeeded"))
    recover(str(tmp_path))
    recover(str(tmp_path))
    await journal.flush()
    with RecordBook(str(tmp_path)) as book:
        assert [(row["status"], row["reason"]) for row in book.latest(10)] == [
            ("cancelled", "deadline_exceeded")
        ]


async def test_the_newest_come_first_and_can_be_chosen(journal: Journal, tmp_path: Path) -> None:
    for number in range(5):
        journal.append(began(number))
        journal.append(ended(number, "failed" if number % 2 else "succeeded"))
    await journal.flush()
    with RecordBook(str(tmp_path)) as book:
        assert [row["invocation_id"] for row in book.latest(2)] == ["inv_4", "inv_3"]
        assert [row["invocation_id"] for row in book.latest(9, status="failed")] == ["inv_3", "inv_1"]
        assert book.latest(9, export="other") == []


async def test_a_journal_that_ends_well_leaves_only_the_book(tmp_path: Path) -> None:
    async with opened(tmp_path) as journal:
        journal.append(began(1))
        journal.append(ended(1))
    assert [path.name for path in tmp_path.iterdir()] == ["vai.db"]


WRITER = textwrap.dedent(
    """
    import asyncio, sys
    from plughost.clock import best_clock
    from plughost.vai.database.open_database import open_database
    from plughost.vai.records.journal import Journal
    from plughost.vai.records.records import Records
    from tests.vai.invocations.test_journal import began, ended
    async def main():
        records = Records(open_database(sys.argv[1]))
        journal = Journal(sys.argv[1], records, best_clock(asyncio.get_running_loop()))
        number = 0
        while True:
            journal.append(began(number))
            if number % 3:
                journal.append(ended(number))
                print(number, flush=True)  # the answer is released
            number += 1
            await asyncio.sleep(0)
    asyncio.run(main())
    """
)


@pytest.mark.clause("VAI-39")
@pytest.mark.parametrize("answers", [1, 40, 4000])
def test_after_kill_9_every_released_answer_is_recorded_and_the_rest_is_ended(
    tmp_path: Path, answers: int
) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", WRITER, tmp_path], stdout=subprocess.PIPE, text=True
    ) as writer:
        assert writer.stdout is not None
        released = [int(writer.stdout.readline()) for _ in range(answers)]
        recover(str(tmp_path))  # of a living one: nothing is ended for it
        with RecordBook(str(tmp_path)) as book:
            assert not [row for row in book.latest(99999) if row["reason"] == "host_ended"]
        os.kill(writer.pid, signal.SIGKILL)
        released += map(int, writer.stdout.read().splitlines())
    recover(str(tmp_path))
    with RecordBook(str(tmp_path)) as book:
        status = {row["invocation_id"]: (row["status"], row["reason"]) for row in book.latest(999_999)}
    assert all(status[f"inv_{number}"] == ("succeeded", None) for number in released)
    assert set(status.values()) <= {("succeeded", None), ("failed", "host_ended")}
    assert status["inv_0"] == ("failed", "host_ended")
    assert not list(tmp_path.glob(f"*{SUFFIX}"))


def test_a_broken_line_loses_no_other(tmp_path: Path) -> None:
    import msgspec

    lines = [
        msgspec.json.encode(began(1)),
        b'{"type":"new',
        msgspec.json.encode(ended(1)),
        msgspec.json.encode(began(2))[:-9],
    ]
    (tmp_path / f"dead{SUFFIX}").write_bytes(b"\n".join(lines))
    recover(str(tmp_path))
    with RecordBook(str(tmp_path)) as book:
        assert [(row["invocation_id"], row["status"]) for row in book.latest(9)] == [("inv_1", "succeeded")]


async def test_more_than_a_file_holds(journal: Journal, tmp_path: Path, monkeypatch) -> None:
    long = {"type": "progress", "message": "x" * (5 << 20)}
    journal.append(began(1))
    for number in range(3):
        journal.append(EventLogged(invocation_id="inv_1", number=number, at=1.0, event=long))
    journal.append(ended(1))
    assert len(list(tmp_path.glob(f"*{SUFFIX}"))) > 1
    recover(str(tmp_path))
    await journal.flush()
    assert len(list(tmp_path.glob(f"*{SUFFIX}"))) == 1
    with RecordBook(str(tmp_path)) as book:
        told = book.get("inv_1")
        assert told is not None
        assert [each["event"] for each in told["events"]] == [long] * 3


def test_a_file_that_was_never_finished_is_swept(tmp_path: Path) -> None:
    (tmp_path / f"abc.1{SUFFIX}.new").write_bytes(b"")
    recover(str(tmp_path))
    assert [*tmp_path.iterdir()] == []


def test_a_recovery_that_fails_closes_the_journals(tmp_path: Path) -> None:
    for number in (1, 2):
        (tmp_path / f"abc.{number}{SUFFIX}").write_bytes(b"")
    with pytest.raises(DatabaseUnavailable):
        recover(str(tmp_path), f"postgresql://nobody@/nothing?host={tmp_path}")
    open_files = [os.path.realpath(path) for path in Path("/proc/self/fd").iterdir()]
    assert [path for path in open_files if path.endswith(SUFFIX)] == []


async def test_a_full_disk_is_met_before_anything_is_half_written(tmp_path: Path, monkeypatch) -> None:
    def full(fd: int, start: int, size: int) -> None:
        raise OSError(28, "No space left on device")

    async with opened(tmp_path) as journal:
        monkeypatch.setattr(os, "posix_fallocate", full)
        with pytest.raises(plughost.PluginError, match="records cannot be kept: No space"):
            journal.append(
                EventLogged(invocation_id="inv_1", number=0, at=1.0, event={"message": "x" * (5 << 20)})
            )
        journal.append(began(1))
        journal.append(ended(1))
    with RecordBook(str(tmp_path)) as book:
        assert [row["status"] for row in book.latest(9)] == ["succeeded"]
    assert [path.name for path in tmp_path.iterdir()] == ["vai.db"]


@pytest.mark.timeout(10)
async def test_who_waits_in_the_moment_when_a_batch_is_done_does_not_wait_forever(journal: Journal) -> None:
    journal.append(began(1))
    journal._start_flush()
    batch = journal._flush_task
    assert batch is not None
    while not batch.done():  # noqa: ASYNC110 - until the very pass in which it ends
        await asyncio.sleep(0)
    await journal.flush()


@pytest.fixture
def locked(tmp_path: Path, monkeypatch):
    """Another program writes to the database, and does not come to an end."""
    monkeypatch.setattr(sqlite, "BUSY_TIMEOUT", 0.01)
    recover(str(tmp_path))
    other = sqlite3.connect(tmp_path / "vai.db", isolation_level=None)
    yield other
    other.close()


def complaints() -> list[str]:
    """What the loop is told from now on."""
    told: list[str] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, about: told.append(about["message"]))
    return told


async def test_what_a_locked_database_did_not_take_it_takes_later(
    tmp_path: Path, locked, journal: Journal
) -> None:
    told = complaints()
    locked.execute("BEGIN IMMEDIATE")
    journal.append(began(1))
    with pytest.raises(plughost.PluginError, match=r"vai.db cannot be used: database is locked"):
        await journal.flush()
    assert told == ["writing records is delayed"]
    journal.append(ended(1))
    locked.execute("ROLLBACK")
    await journal.close()
    assert [path.name for path in tmp_path.glob(f"*{SUFFIX}")] == []
    with RecordBook(str(tmp_path)) as book:
        assert [row["status"] for row in book.latest(9)] == ["succeeded"]


async def test_a_host_that_closes_while_the_database_is_locked_leaves_its_lines(
    tmp_path: Path, locked, journal: Journal
) -> None:
    told = complaints()
    locked.execute("BEGIN IMMEDIATE")
    journal.append(began(1))
    journal.append(ended(1))
    await journal.close()
    assert told == ["writing records is delayed"]
    locked.execute("ROLLBACK")
    recover(str(tmp_path))
    assert [path.name for path in tmp_path.glob(f"*{SUFFIX}")] == []
    with RecordBook(str(tmp_path)) as book:
        assert [row["status"] for row in book.latest(9)] == ["succeeded"]


async def test_a_file_that_a_live_host_removes_meanwhile_does_not_make_it_dead(
    journal: Journal, tmp_path: Path, monkeypatch
) -> None:
    journal.append(began(1))
    page = journal._file
    journal._file = journal._next_file(1 << 20)
    opened = os.open

    def then_gone(path: str, *other: object, **named: object) -> int:
        fd = opened(path, *other, **named)  # type: ignore[arg-type]
        if path == page._path:
            page.remove()
            journal._stored = journal._appended  # a host removes a file when the database has its lines
        return fd

    monkeypatch.setattr(os, "open", then_gone)
    recover(str(tmp_path))
    monkeypatch.undo()
    with RecordBook(str(tmp_path)) as book:
        assert [row["status"] for row in book.latest(9)] == [None], "it still runs"
    journal.append(ended(1))


async def test_an_end_that_finds_a_full_disk_is_an_end_nevertheless(
    journal: Journal, tmp_path: Path, monkeypatch
) -> None:
    journal.append(began(1))

    def full(fd: int, start: int, size: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(plughost.PluginError, match="records cannot be kept"):
        journal.append(ended(1, "failed", message="x" * (5 << 20)))
    await journal.flush()
    with RecordBook(str(tmp_path)) as book:
        assert [row["status"] for row in book.latest(9)] == ["failed"]
