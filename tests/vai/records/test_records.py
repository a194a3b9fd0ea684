"""Records in the database, on both: lines come in batches, in any order, twice, or damaged."""

from __future__ import annotations

import asyncio
import secrets
from pathlib import Path
from typing import Any

import msgspec
import pytest

from plughost.errors import InvalidSpec, Stopped
from plughost.testing import VirtualClock
from plughost.vai.database.database import Database
from plughost.vai.database.statements import statement
from plughost.vai.records import refused_lines
from plughost.vai.records.journal import Journal
from plughost.vai.records.record import EventLogged
from plughost.vai.records.records import Records, presume_ended
from plughost.vai.records.recovery import recover
from plughost.vai.records.retention import DAY, Retention
from plughost.vai.state.leases import ProcessLease
from tests.support import until
from tests.vai.invocations.test_journal import START, began, ended

encode = msgspec.json.encode


def logged(number: int, place: int = 0, text: str = "working") -> bytes:
    event = {"type": "progress", "message": text}
    return encode(EventLogged(invocation_id=f"inv_{number}", number=place, at=1.5, event=event))


async def status_of(records: Records) -> list[tuple[str, str | None, str | None]]:
    return [(row["invocation_id"], row["status"], row["reason"]) for row in await records.latest(99)]


async def test_the_parts_of_a_record_come_together_or_one_by_one(database: Database) -> None:
    records = Records(database)
    lines = [
        encode(began(1, project_id="p", session_id="s")),
        logged(1),
        encode(ended(1, "failed", reason="crashed")),
    ]
    await records.insert("host", lines)
    for line in (encode(began(2)), logged(2), encode(ended(2)), encode(ended(2, "failed"))):
        await records.insert("host", [line])
    await records.insert("host", lines)
    assert await status_of(records) == [("inv_2", "succeeded", None), ("inv_1", "failed", "crashed")]
    first = await records.get("inv_1")
    assert first is not None
    assert (first["project_id"], first["session_id"], first["export_id"]) == ("p", "s", "jira_search")
    assert [event["event"]["message"] for event in first["events"]] == ["working"]


async def test_of_two_ends_the_first_counts(database: Database) -> None:
    records = Records(database)
    await records.insert(
        "host", [encode(began(1)), encode(ended(1, "cancelled")), encode(ended(1, "succeeded"))]
    )
    await records.insert("host", [encode(began(2))])
    await records.insert("host", [encode(ended(2, "cancelled")), encode(ended(2, "succeeded"))])
    assert {status for _, status, _ in await status_of(records)} == {"cancelled"}


async def test_what_a_host_says_counts_more_than_what_was_presumed(database: Database) -> None:
    records = Records(database)
    await records.insert("host", [encode(began(1)), encode(began(2)), encode(ended(2))])
    await database.write(presume_ended, "host")
    assert await status_of(records) == [("inv_2", "succeeded", None), ("inv_1", "failed", "host_ended")]
    await database.write(presume_ended, "host")
    await records.insert("host", [encode(ended(1, "cancelled", reason="late"))])
    await records.insert("host", [encode(ended(1, "failed"))])
    assert (await status_of(records))[1] == ("inv_1", "cancelled", "late")


DEEP = (
    b'{"type":"said","invocation_id":"inv_1","number":9,"at":1.0,"event":'
    + b"[" * 50_000
    + b"]" * 50_000
    + b"}"
)


@pytest.mark.parametrize(
    "damage",
    [b'{"type":"began"', b"\xff\xfe", b'{"type":"ended","invocation_id":[}', b"", DEEP],
    ids=["cut", "binary", "malformed", "empty", "deep"],
)
async def test_a_damaged_line_loses_no_other(database: Database, damage: bytes) -> None:
    records = Records(database)
    refused = await records.insert("host", [encode(began(1)), damage, logged(1), encode(ended(1))])
    assert refused == [damage] * bool(damage)
    assert await status_of(records) == [("inv_1", "succeeded", None)]
    record = await records.get("inv_1")
    assert record is not None
    assert len(record["events"]) == 1


async def test_values_that_the_database_refuses_are_found_among_many(database: Database) -> None:
    """PostgreSQL indexes no text of more than 2.7 kB; SQLite takes it."""
    records = Records(database)
    long = began(13, session_id=secrets.token_hex(5000))
    lines = [encode(long if number == 13 else began(number)) for number in range(40)]
    refused = await records.insert("host", lines)
    assert refused == ([lines[13]] if database.dialect == "postgresql" else [])
    assert len(await status_of(records)) == 40 - len(refused)


async def test_a_lost_database_refuses_no_line(database: Database) -> None:
    records = Records(database)
    await records.insert("host", [encode(began(1))])
    await database.close()
    with pytest.raises(Stopped):
        await records.insert("host", [encode(began(2)), encode(began(3))])


async def test_a_journal_sets_refused_lines_aside_and_goes_on(database: Database, tmp_path: Path) -> None:
    reports: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: reports.append(context))
    records = Records(database)
    journal = Journal(str(tmp_path), records, VirtualClock())
    journal.append(began(1))
    journal._file.write(b'{"type":"began","invocation_id":damaged}\n')
    journal._on_appended(41)
    journal.append(ended(1))
    await journal.close()
    assert await status_of(records) == [("inv_1", "succeeded", None)]
    file = tmp_path / refused_lines.FILE
    assert file.read_bytes() == b'{"type":"began","invocation_id":damaged}\n'
    assert file.stat().st_mode & 0o777 == 0o600
    assert [each["message"] for each in reports] == ["the database refused records"]
    assert str(file) in str(reports[0]["exception"])
    assert not [*tmp_path.glob("*.journal")]


async def test_the_lines_of_a_killed_host_are_set_aside_once(database: Database, tmp_path: Path) -> None:
    asyncio.get_running_loop().set_exception_handler(lambda *_: None)
    (tmp_path / "dead.1.journal").write_bytes(encode(began(1)) + b"\n" + b"garbage\n" + b"\0" * 100)
    for _ in range(2):
        await recover(str(tmp_path), database)
    assert (tmp_path / refused_lines.FILE).read_bytes() == b"garbage\n"
    assert await status_of(Records(database)) == [("inv_1", "failed", "host_ended")]


async def test_any_text_is_kept(database: Database) -> None:
    records = Records(database)
    texts = ["\0", "\\u0000", "é\U0001f600", '\x01\x1f"\\', "'; DROP TABLE invocations; --"]
    await records.insert(
        "host", [encode(began(1)), *(logged(1, place, text) for place, text in enumerate(texts))]
    )
    await records.insert("host", [encode(ended(1, "failed", message="".join(texts)))])
    record = await records.get("inv_1")
    assert record is not None
    texts[0] = "\ufffd"  # which PostgreSQL cannot store
    assert [each["event"]["message"] for each in record["events"]] == texts
    assert record["message"] == "".join(texts)


async def test_a_nul_in_an_id_loses_nothing(database: Database) -> None:
    records = Records(database)
    await records.insert("host", [encode(began(1, session_id="a\0b")), encode(began(2)), encode(ended(2))])
    assert ("inv_2", "succeeded", None) in await status_of(records)


async def test_a_start_with_a_nul_in_an_id_is_committed(database: Database) -> None:
    records = Records(database)
    assert await records.commit_start("host", began(1, session_id="a\0b"), "key") == "inv_1"
    assert [row["session_id"] for row in await records.latest(9)] == ["a\ufffdb"]


async def test_lists_are_filtered_by_known_words_only(database: Database) -> None:
    records = Records(database)
    for number in range(4):
        line = msgspec.structs.replace(began(number, session_id=f"s{number % 2}"), project_id="p")
        await records.insert(
            "host", [encode(line), encode(ended(number, "failed" if number else "succeeded"))]
        )
    assert [row["invocation_id"] for row in await records.latest(2)] == ["inv_3", "inv_2"]
    assert [row["invocation_id"] for row in await records.latest(9, status="failed", session="s1")] == [
        "inv_3",
        "inv_1",
    ]
    assert len(await records.latest(9, org="org_1", project="p", since=START + 2)) == 2
    assert len(await records.latest(9, until=START + 1)) == 1
    assert await records.latest(9, export="x'; DROP TABLE invocations") == []
    for wrong, words in (({"colour": "x"}, "no filter colour"), ({"version": "1"}, "together with export")):
        with pytest.raises(InvalidSpec, match=words):
            await records.latest(9, **wrong)


async def test_the_oldest_beyond_a_count_or_an_age_go_and_what_runs_stays(database: Database) -> None:
    records = Records(database)
    for number in range(10):
        lines = [encode(began(number)), logged(number)]
        await records.insert("host", lines if number == 2 else [*lines, encode(ended(number))])
    keep = Retention(age=None, size=None, count=4)
    assert (await records.would_prune(keep, START)).invocations == 5
    assert (await records.prune(keep, START)).invocations == 5
    assert [row["invocation_id"] for row in await records.latest(99)] == [
        "inv_9",
        "inv_8",
        "inv_7",
        "inv_6",
        "inv_2",
    ]
    assert (await records.prune(Retention(age=30 * DAY, size=None), START + 31 * DAY)).invocations == 4
    assert [row["invocation_id"] for row in await records.latest(99)] == ["inv_2"]
    before = await records.used()
    assert before > 0


async def test_many_old_records_go_in_few_transactions(database: Database) -> None:
    records = Records(database)
    lines = [line for number in range(600) for line in (began(number), logged(number), ended(number))]
    encoded = [line if isinstance(line, bytes) else encode(line) for line in lines]
    await records.insert("host", encoded)
    steps = [await records.prune(Retention(age=0.0), START + DAY) for _ in range(6)]
    assert sum(step.invocations for step in steps) == 600
    assert [step.more for step in steps][-1] is False
    assert steps[0].invocations > 100
    assert await status_of(records) == []
    left = statement("left", {None: "SELECT count(*) AS number FROM invocation_events"})
    assert (await database.read(left())).value() == 0


async def test_all_records_are_measured_once_and_no_more_than_the_excess_is_removed(
    database: Database, monkeypatch
) -> None:
    records = Records(database)
    lines = [line for number in range(300) for line in (began(number), ended(number))]
    await records.insert("host", [encode(line) for line in lines])
    monkeypatch.setattr("plughost.vai.records.records.MAX_BATCH_BYTES", 10_000)
    wanted = Retention(age=None, size=await records.used() - 20_000)
    removed = 0
    while (step := await records.prune(wanted, START)).invocations:
        removed += step.bytes
    assert 15_000 <= removed <= 40_000, "SQLite counts pages; the last batch may exceed it a little"


async def test_a_lease_that_is_given_up_frees_its_claims_for_others_at_once(database: Database) -> None:
    told: list[str] = []
    one, other = (ProcessLease(database, name, VirtualClock()) for name in ("one", "other"))
    other.on_taken_back.append(lambda: told.append("free"))
    await one.acquire()
    await one.close()
    await until(lambda: told)
    await other.close()
