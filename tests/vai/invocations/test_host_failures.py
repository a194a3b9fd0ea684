"""When the host itself cannot keep what an export gave: an outcome that says so, and no plugin is blamed."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from plughost._util.redaction.redactor import Redactor
from plughost.errors import Denied, HostFailed
from plughost.vai.database import sqlite
from plughost.vai.invocations.artifacts import collect_artifacts
from plughost.vai.invocations.invocation import Invocation
from plughost.vai.invocations.requests import PROJECTION
from plughost.vai.records.record import Finished
from plughost.vai.state.chains import Block, Chain
from tests.vai.invocations.conftest import Bench
from tests.vai.invocations.test_invoker import compaction


@contextmanager
def dropped(file: Path) -> Iterator[None]:
    with sqlite3.connect(file) as connection:
        connection.execute("DROP TABLE blocks")
    connection.close()
    yield


@contextmanager
def locked(file: Path) -> Iterator[None]:
    connection = sqlite3.connect(file, isolation_level=None)
    connection.execute("BEGIN IMMEDIATE")
    yield
    connection.close()


BROKEN = pytest.mark.parametrize(
    ("broken", "why"), [(dropped, "no such table: blocks"), (locked, "database is locked")]
)


@pytest.fixture
async def lab(bench, monkeypatch) -> Bench:
    monkeypatch.setattr(sqlite, "BUSY_TIMEOUT", 0.05)
    made: Bench = bench()
    await made.chains.create(
        Chain(chain_id="ch_1", org_id="org_1", project_id="proj_1"), [Block("input", [])]
    )
    return made


@BROKEN
@pytest.mark.clause("VAI-39", "VAI-51", "VAI-52")
async def test_a_tools_result_that_no_chain_takes(lab: Bench, broken, why: str) -> None:
    """The tool has done its work: it is neither called again, though it only reads, nor ended."""
    await lab.tool(do="echo")
    (plugin,) = lab.host.plugins.values()
    with broken(lab.folder / "state/vai.db"):
        outcome = await lab.tool(do="remember", what="called", chain_id="ch_1")
    assert (outcome.status, outcome.reason, outcome.retries) == ("failed", "host_failure", 0)
    assert outcome.message is not None
    assert outcome.message.startswith("its result could not be written into a chain: ")
    assert outcome.message.endswith(why)
    assert (outcome.result, outcome.last_words) == (None, None)
    ended = lab.kept.of(Finished)[-1]
    assert (ended.invocation_id, ended.status, ended.reason) == (
        outcome.invocation_id, "failed", "host_failure",
    )  # fmt: skip
    again = await lab.tool(do="remember", what="after")
    assert again.result["structured_output"]["seen"] == ["called", "after"], "once, in the same process"
    assert [*lab.host.plugins.values()] == [plugin]


@BROKEN
@pytest.mark.clause("VAI-39", "VAI-56")
async def test_a_compaction_that_makes_no_chain(lab: Bench, broken, why: str) -> None:
    with broken(lab.folder / "state/vai.db"):
        outcome = await lab.invoker.invoke(Invocation(binding=lab.binding("shortens"), work=compaction(3)))
    assert (outcome.status, outcome.reason) == ("failed", "host_failure")
    assert outcome.message is not None
    assert why in outcome.message
    assert await lab.chains.derived("cmp_1") is None


async def test_a_database_that_is_none(bench) -> None:
    lab = bench()
    (lab.folder / "state").mkdir()
    (lab.folder / "state/vai.db").write_text("this is no database, " * 100)
    outcome = await lab.tool(do="echo", chain_id="ch_1")
    assert (outcome.status, outcome.reason) == ("failed", "host_failure")
    assert outcome.message is not None
    assert "vai.db cannot be used" in outcome.message


def a_link_in_it(folder: Path, elsewhere: Path) -> None:
    (folder / PROJECTION).symlink_to(elsewhere / PROJECTION)


def a_link_in_its_place(folder: Path, elsewhere: Path) -> None:
    folder.rename(folder.with_name("away"))
    folder.symlink_to(elsewhere)


@pytest.mark.clause("VAI-57", "VAI-93")
@pytest.mark.parametrize(
    ("spoil", "why"), [(a_link_in_it, "File exists"), (a_link_in_its_place, "Not a directory")]
)
async def test_a_projection_is_not_written_elsewhere(lab: Bench, monkeypatch, spoil, why: str) -> None:
    """A process that serves its tenant's next invocation, too, may have been there first."""
    make, elsewhere = lab.invoker._executor.scratch.make, lab.folder / "elsewhere"
    elsewhere.mkdir()

    def spoiled(root: str, invocation_id: str) -> str:
        folder = make(root, invocation_id)
        spoil(Path(folder), elsewhere)
        return folder

    monkeypatch.setattr(lab.invoker._executor.scratch, "make", spoiled)
    outcome = await lab.invoker.invoke(Invocation(binding=lab.binding("shortens"), work=compaction(400)))
    assert (outcome.status, outcome.reason) == ("failed", "host_failure")
    assert outcome.message == f"its projection could not be written: {why}"
    assert not [*elsewhere.iterdir()]


def test_artifacts_of_a_folder_that_is_gone_and_for_one_that_is_none(tmp_path: Path) -> None:
    scratch, full = tmp_path / "scratch", tmp_path / "full"
    given = [{"path": "report.txt"}]
    with pytest.raises(Denied, match="removed its scratch folder"):
        collect_artifacts(given, str(scratch), None, Redactor())
    scratch.mkdir()
    (scratch / "report.txt").write_text("findings")
    full.write_text("a file where a folder should be")
    with pytest.raises(HostFailed, match="could not be stored"):
        collect_artifacts(given, str(scratch), str(full), Redactor())
