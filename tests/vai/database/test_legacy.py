"""The files of earlier versions are taken over once, whole, and stay as they were."""

import fcntl
import hashlib
import sqlite3
from contextlib import closing
from pathlib import Path

import msgspec
import pytest

from plughost.contracts.vai.request_bodies import EventSubject, HookEvent
from plughost.errors import HostFailed
from plughost.vai.bindings.binding import Scope
from plughost.vai.database.open_database import open_database
from plughost.vai.database.statements import statement
from plughost.vai.records.records import Records
from plughost.vai.records.recovery import recover
from plughost.vai.state.chains import Block
from plughost.vai.state.runs import RunRecord
from plughost.vai.state.state import TenantState
from tests.vai.invocations.test_journal import began, ended

EVENT = msgspec.json.encode(
    HookEvent(
        type="run.completed",
        occurred_at="2026-03-12T19:00:00Z",
        subject=EventSubject("run", "run_1"),
        summary={},
    )
)
STATE_1 = """
CREATE TABLE chains (chain_id PRIMARY KEY, org_id NOT NULL, project_id, session_id, source_chain_id,
  compaction_id UNIQUE) WITHOUT ROWID;
CREATE TABLE blocks (chain_id NOT NULL, number INTEGER NOT NULL, kind NOT NULL, content NOT NULL, once UNIQUE,
  PRIMARY KEY (chain_id, number)) WITHOUT ROWID;
INSERT INTO chains VALUES ('ch_1', 'org_1', NULL, 'sess_1', NULL, NULL);
INSERT INTO blocks VALUES ('ch_1', 1, 'system', CAST('[]' AS BLOB), NULL);
INSERT INTO blocks VALUES ('ch_1', 2, 'tool_result', CAST('[1]' AS BLOB), '[{"org_id":"org_1","project_id":null},"toolx_1"]');
"""
STATE_2 = """
ALTER TABLE blocks ADD COLUMN more NOT NULL DEFAULT '{}';
CREATE TABLE sessions (session_id PRIMARY KEY, org_id NOT NULL, project_id, title NOT NULL) WITHOUT ROWID;
CREATE TABLE runs (run_id PRIMARY KEY, org_id NOT NULL, project_id, session_id, chain_id, parent_run_id,
  invocation_id, export_id, task NOT NULL, status NOT NULL, reason, output, result, started_at REAL NOT NULL,
  ended_at REAL) WITHOUT ROWID;
CREATE TABLE happened (number INTEGER PRIMARY KEY AUTOINCREMENT, org_id NOT NULL, project_id, event NOT NULL);
UPDATE blocks SET more = CAST('{"id":"b1"}' AS BLOB) WHERE number = 1;
INSERT INTO sessions VALUES ('sess_1', 'org_1', NULL, 'Fix');
INSERT INTO runs VALUES ('run_1', 'org_1', 'proj_1', NULL, NULL, NULL, 'inv_1', NULL, 'Fix', 'succeeded', NULL,
  'done', CAST('{"a":1}' AS BLOB), 5.0, 6.0);
"""
DELIVERIES = """
CREATE TABLE deliveries (delivery_id PRIMARY KEY, binding_id NOT NULL, project_id, event NOT NULL,
  attempt INTEGER NOT NULL DEFAULT 0, due_at REAL, status NOT NULL DEFAULT 'pending', why,
  UNIQUE (binding_id, event)) WITHOUT ROWID;
"""
INVOCATIONS = """
CREATE TABLE invocations (number INTEGER PRIMARY KEY, invocation_id UNIQUE, export_id, host, status, began, ended);
CREATE TABLE events (invocation_id, number, said, PRIMARY KEY (invocation_id, number)) WITHOUT ROWID;
"""
LOGGED = b'{"type":"said","invocation_id":"inv_1","number":0,"at":1.5,"event":{"type":"x"}}'


def write(folder: Path, state: int, deliveries: int) -> None:
    """The files of an earlier host, of these versions; one was killed and left its log beside its file."""
    with closing(sqlite3.connect(folder / "state.db")) as file:
        file.executescript(STATE_1 + (STATE_2 if state == 2 else ""))
        if state == 2:
            file.execute("INSERT INTO happened (org_id, event) VALUES ('org_1', ?)", (EVENT,))
        file.execute(f"PRAGMA user_version = {state}")
        file.commit()
    with closing(sqlite3.connect(folder / "deliveries.db")) as file:
        file.executescript(DELIVERIES)
        if deliveries == 2:
            file.execute("ALTER TABLE deliveries ADD COLUMN org_id NOT NULL DEFAULT ''")
        row = "INSERT INTO deliveries (delivery_id, binding_id, event, attempt, due_at, status, why) VALUES (?, ?, ?, ?, ?, ?, ?)"
        file.execute(row, ("a", "bind_1", EVENT, 1, 7.0, "under way", None))
        file.execute(row, ("b", "bind_2", EVENT, 8, None, "dead", "it said so"))
        file.execute(row, ("c", "bind_3", EVENT, 1, None, "acknowledged", None))
        if deliveries == 2:
            file.execute("UPDATE deliveries SET org_id = 'org_1'")
        file.execute(f"PRAGMA user_version = {deliveries}")
        file.commit()
    file = sqlite3.connect(folder / "elsewhere.db")
    file.execute("PRAGMA journal_mode = WAL")
    file.executescript(INVOCATIONS)
    row = "INSERT INTO invocations (invocation_id, export_id, host, status, began, ended) VALUES (?, ?, ?, ?, ?, ?)"
    first, last = msgspec.json.encode(began(1, session_id="sess_1")), msgspec.json.encode(ended(1))
    file.execute(row, ("inv_1", "jira_search", "old", "succeeded", first, last))
    file.execute(row, ("inv_2", "jira_search", "old", None, msgspec.json.encode(began(2)), None))
    file.execute("INSERT INTO events VALUES ('inv_1', 0, ?)", (LOGGED,))
    file.execute("PRAGMA user_version = 1")
    file.commit()
    for suffix in ("", "-wal"):  # as a killed host leaves them
        (folder / f"invocations.db{suffix}").write_bytes((folder / f"elsewhere.db{suffix}").read_bytes())
    file.close()
    (folder / "elsewhere.db").unlink()


def digests(folder: Path) -> dict[str, str]:
    return {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.iterdir())
        if not path.name.startswith("vai.db")
    }


@pytest.mark.parametrize("state", [1, 2])
@pytest.mark.parametrize("deliveries", [1, 2])
async def test_everything_is_taken_over_and_the_files_stay(
    tmp_path: Path, state: int, deliveries: int
) -> None:
    write(tmp_path, state, deliveries)
    before = digests(tmp_path)
    for _ in range(2):  # the second time there is nothing to do
        database = open_database(str(tmp_path))
        kept = TenantState(database)
        blocks = await kept.chains.blocks("ch_1")
        assert [(block.kind, block.content) for block in blocks] == [("system", []), ("tool_result", [1])]
        assert not await kept.chains.insert_tool_result(Scope("org_1"), "ch_1", "toolx_1", 1), "it is there"
        if state == 2:
            assert blocks[0] == Block("system", [], {"id": "b1"})
            assert (await kept.sessions.session("sess_1")).scope == Scope("org_1")
            run = await kept.runs.run("run_1")
            assert run == RunRecord(
                run_id="run_1", org_id="org_1", project_id="proj_1", invocation_id="inv_1", task="Fix",
                status="succeeded", output="done", result={"a": 1}, started_at=5.0, ended_at=6.0,
            )  # fmt: skip
            assert [each.scope for each in await kept.outbox.waiting()] == [Scope("org_1")]
        found = statement(
            "found",
            {
                None: "SELECT delivery_id, d.org_id, attempt, due_at, status, why, event FROM deliveries d "
                "JOIN events e ON e.number = event_number ORDER BY delivery_id"
            },
        )
        rows = [tuple(row) for row in (await database.read(found())).rows]
        org = "org_1" if deliveries == 2 else ""
        assert rows == [
            ("a", org, 1, 7.0, "pending", None, EVENT.decode()),
            ("b", org, 8, None, "dead", "it said so", EVENT.decode()),
            ("c", org, 1, None, "acked", None, EVENT.decode()),
        ]
        records = Records(database)
        first = await records.get("inv_1")
        assert first is not None
        assert (first["status"], first["session_id"]) == ("succeeded", "sess_1")
        assert first["events"] == [{"at": 1.5, "event": {"type": "x"}}]
        assert [(row["invocation_id"], row["status"]) for row in await records.latest(9)] == [
            ("inv_2", None),
            ("inv_1", "succeeded"),
        ]
        await database.close()
    assert digests(tmp_path) == before


async def test_files_that_a_host_still_uses_are_not_taken_over(tmp_path: Path) -> None:
    write(tmp_path, 2, 2)
    with open(tmp_path / "abc.1.journal", "wb") as journal:
        fcntl.flock(journal, fcntl.LOCK_EX)
        database = open_database(str(tmp_path))
        with pytest.raises(HostFailed, match="in use by a host of an earlier version"):
            await database.open()
        await database.close()
    database = open_database(str(tmp_path))
    assert len(await Records(database).latest(9)) == 2
    await database.close()


async def test_the_files_of_a_host_that_was_killed_are_taken_over_with_its_journal(tmp_path: Path) -> None:
    write(tmp_path, 2, 2)
    lines = msgspec.json.encode(began(3)) + b"\n" + msgspec.json.encode(ended(3)) + b"\n"
    (tmp_path / "old.1.journal").write_bytes(lines.ljust(4096, b"\0"))
    database = open_database(str(tmp_path))
    await recover(str(tmp_path), database)
    found = {row["invocation_id"]: row["status"] for row in await Records(database).latest(9)}
    assert found == {"inv_1": "succeeded", "inv_2": "failed", "inv_3": "succeeded"}
    await database.close()


async def test_a_file_that_is_damaged_stops_it_and_nothing_is_half_done(tmp_path: Path) -> None:
    write(tmp_path, 2, 2)
    good = (tmp_path / "deliveries.db").read_bytes()
    (tmp_path / "deliveries.db").write_bytes(good[:5000] + b"x" * (len(good) - 5000))
    database = open_database(str(tmp_path))
    with pytest.raises(HostFailed):
        await database.open()
    await database.close()
    (tmp_path / "deliveries.db").write_bytes(good)
    database = open_database(str(tmp_path))
    assert len(await Records(database).latest(9)) == 2
    await database.close()
