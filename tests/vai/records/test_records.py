"""Records in the database, on both: lines come in batches, in any order, twice, or damaged."""

from __future__ import annotations

import msgspec
import pytest

from plughost.errors import InvalidSpec
from plughost.vai.database.database import Database
from plughost.vai.records.record import EventLogged
from plughost.vai.records.records import Records, presume_ended
from plughost.vai.records.retention import DAY, Retention
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
    b'{"type":"said","invocation_id":"inv_1","number":9,"at":1.0,"event":' + b"[" * 3000 + b"]" * 3000 + b"}"
)


@pytest.mark.parametrize(
    "damage",
    [b'{"type":"began"', b"\xff\xfe", b'{"type":"ended","invocation_id":[}', b"", DEEP],
    ids=["cut", "binary", "malformed", "empty", "deep"],
)
async def test_a_damaged_line_loses_no_other(database: Database, damage: bytes) -> None:
    records = Records(database)
    await records.insert("host", [encode(began(1)), damage, logged(1), encode(ended(1))])
    assert await status_of(records) == [("inv_1", "succeeded", None)]


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
