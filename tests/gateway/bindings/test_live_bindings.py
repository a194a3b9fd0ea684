"""Active bindings in memory: fresh within a second in every process, chosen without a query."""

from __future__ import annotations

import asyncio
import signal
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from plughost.clock import LoopClock
from plughost.gateway.bindings import live_bindings, table
from plughost.gateway.bindings.live_bindings import LiveBindings
from plughost.gateway.problems import Problem
from plughost.testing import VirtualClock
from plughost.vai.bindings.binding import Scope
from plughost.vai.bindings.bindings import Bindings
from plughost.vai.database.database import Database
from plughost.vai.database.statements import statement
from tests.gateway.bindings.support import ANNA, ORG, PROJECT, create, patch, share
from tests.support import ROOT, until


class Spy:
    """A database that keeps which statements were read, and how many rows each gave."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self.reads: list[tuple[str, int]] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._database, name)

    async def read(self, unit: Any, *args: Any) -> Any:
        def watched() -> Any:
            steps, result = unit(*args), None
            while True:
                try:
                    query = steps.send(result)
                except StopIteration as stop:
                    return stop.value
                result = yield query
                self.reads.append((query.statement.name, len(result.rows)))

        return await self._database.read(watched)


@asynccontextmanager
async def running(database: Any, clock: Any = None) -> AsyncIterator[LiveBindings]:
    live = LiveBindings(database, clock or VirtualClock())
    await live.start()
    try:
        yield live
    finally:
        await live.close()


def chosen(
    live: LiveBindings, scope: Scope = PROJECT, export: str = "search", key: str = "k", **more: Any
) -> str:
    return live.choose(scope, export, key, **more).binding.binding_id


async def test_it_is_what_invocations_look_bindings_up_in(database: Database) -> None:
    made = await create(database, config={"a": 1}, secrets={"t": "secret://org_1/t"})
    off = await create(database, "2.0.0", status="disabled")
    async with running(database) as live:
        bindings: Bindings = live
        found = bindings.by_id(made.binding_id)
        assert found is not None
        assert (found.config, found.secrets, found.scope) == (made.config, made.secrets, PROJECT)
        assert bindings.by_id(off.binding_id) is None
        assert list(bindings.of(PROJECT)) == [found]
        assert list(bindings.of(Scope("org_1", "proj_2"))) == []
        assert bindings.serves(Scope("org_9")) is True
        assert (bindings.ids(), bindings.scopes()) == (None, None)


@pytest.mark.clause("GW-28", "VAI-62")
async def test_a_projects_binding_wins_over_its_organisations(database: Database) -> None:
    whole = await create(database, scope=ORG)
    async with running(database) as live:
        assert chosen(live) == whole.binding_id
        assert live.choose(PROJECT, "search", "k").level == "org"
        own = await create(database, "2.0.0")
        await live.refresh()
        assert chosen(live) == own.binding_id
        assert live.choose(PROJECT, "search", "k").level == "project"
        assert chosen(live, Scope("org_1", "proj_2")) == whole.binding_id
        assert chosen(live, ORG) == whole.binding_id
        assert [each.binding_id for each in live.of(PROJECT)] == [own.binding_id]
        with pytest.raises(Problem) as caught:
            live.choose(Scope("org_2", "proj_1"), "search", "k")
        assert caught.value.code == "not_bound"


@pytest.mark.clause("GW-28")
async def test_an_export_of_two_packages_needs_the_package(database: Database) -> None:
    jira = await create(database)
    wiki = await create(database, package="acme/wiki", scope=ORG)
    async with running(database) as live:
        with pytest.raises(Problem, match="acme/jira, acme/wiki") as caught:
            live.choose(PROJECT, "search", "k")
        assert (caught.value.code, caught.value.status) == ("ambiguous", 409)
        assert chosen(live, package_id="acme/wiki") == wiki.binding_id
        assert chosen(live, package_id="acme/jira") == jira.binding_id
        with pytest.raises(Problem, match="of acme/x is bound"):
            live.choose(PROJECT, "search", "k", package_id="acme/x")


@pytest.mark.clause("GW-28", "VAI-62")
async def test_calls_follow_the_shares_and_no_key_moves_back(database: Database) -> None:
    first, second = await create(database), await create(database, "2.0.0")
    keys = [f"key-{number}" for number in range(2000)]
    moved: set[str] = set()
    async with running(database) as live, running(database) as other:
        assert {chosen(live, key=key) for key in keys} == {first.binding_id}
        for percent in (10, 20, 50):
            await patch(database, second, share(percent))
            await live.refresh()
            await other.refresh()
            now = {key for key in keys if chosen(live, key=key) == second.binding_id}
            assert now == {key for key in keys if chosen(other, key=key) == second.binding_id}
            assert moved <= now
            assert abs(len(now) / 20 - percent) < 2.5
            moved = now
        assert {live.of(PROJECT, key)[0].binding_id for key in moved} == {second.binding_id}
        await patch(database, second, {"status": "disabled"})
        await live.refresh()
        assert {chosen(live, key=key) for key in keys} == {first.binding_id}


@pytest.mark.clause("GW-28")
async def test_the_version_that_was_activated_last_is_the_new_one(database: Database) -> None:
    first, second = await create(database), await create(database, "2.0.0")
    await patch(database, first, {"status": "disabled"})
    await patch(database, first, {"status": "active"})
    async with running(database) as live:
        ids = [each.binding.binding_id for each in live.versions_with(first.binding_id)]
        assert ids == [second.binding_id, first.binding_id]


@pytest.mark.clause("GW-30")
async def test_what_a_project_can_use_says_who_serves_it_and_why(database: Database) -> None:
    await create(database, scope=ORG)
    await create(database, scope=ORG, export="read")
    await create(database)
    await create(database, "2.0.0")
    async with running(database) as live:
        found = {
            each.export_id: (
                each.level,
                [(v.binding.package_version, v.traffic_percent) for v in each.versions],
            )
            for each in live.available(PROJECT)
        }
    assert found == {"search": ("project", [("1.0.0", 100), ("2.0.0", 0)]), "read": ("org", [("1.0.0", 100)])}


async def test_an_unchanged_binding_stays_the_identical_object(database: Database) -> None:
    first, second = await create(database), await create(database, "2.0.0")
    async with running(database) as live:
        before = [live.by_id(each.binding_id) for each in (first, second)]
        await patch(database, second, share(30))
        await live.refresh()
        assert all(
            live.by_id(one.binding_id) is kept for one, kept in zip((first, second), before, strict=True)
        )
        await patch(database, second, {"config": {"on": 1}})
        await live.refresh()
        changed = live.by_id(second.binding_id)
        assert changed is not before[1]
        await patch(database, second, {"config": {"on": True}})
        await live.refresh()
        assert live.by_id(second.binding_id) is not changed  # for Python, 1 and True are equal
        assert live.by_id(first.binding_id) is before[0]


async def test_a_deleted_or_disabled_binding_is_gone(database: Database) -> None:
    one, two = await create(database), await create(database, package="acme/wiki")
    async with running(database) as live:
        await database.write(table.delete, ORG, one.binding_id, ANNA)
        await patch(database, two, {"status": "disabled"})
        await live.refresh()
        assert [live.by_id(each.binding_id) for each in (one, two)] == [None, None]
        assert list(live.available(PROJECT)) == []
        assert live.versions_with(one.binding_id) == ()
        await patch(database, two, {"status": "active"})
        await live.refresh()
        assert chosen(live) == two.binding_id


async def fill(database: Database, count: int) -> None:
    rows = [
        {"id": f"b{n}", "number": n, "org": f"o{n % 50}", "package": f"k/{n}"} for n in range(1, count + 1)
    ]
    insert = statement(
        "fill",
        {
            None: "INSERT INTO bindings VALUES (:id, :number, :org, '', :package, '1', 'e', '{}', '{}', '{}', "
            "'active', 100, :number, 1, 1.0, 1.0)"
        },
    )
    await database.write(insert.each(rows))
    await database.write(
        statement(
            "count", {None: "INSERT INTO meta VALUES ('binding_changes', CAST(CAST(:n AS BIGINT) AS TEXT))"}
        )(n=count)
    )


async def test_a_change_of_one_of_ten_thousand_reads_one(database: Database) -> None:
    await fill(database, 10_000)
    spy = Spy(database)
    async with running(spy) as live:
        assert ("all_active", 10_000) in spy.reads
        before = {f"b{n}": live.by_id(f"b{n}") for n in range(1, 10_001)}
        assert None not in before.values()
        spy.reads.clear()
        await database.write(table.patch, Scope("o7"), "b7", {"config": {"a": 1}}, ANNA)
        await live.refresh()
        assert [read for read in spy.reads if read[0] != "newest_change"] == [("changed", 1)]
        assert [name for name, kept in before.items() if live.by_id(name) is not kept] == ["b7"]
        spy.reads.clear()
        await live.refresh()
        assert {name for name, _ in spy.reads} == {"newest_change"}
        await until(lambda: live._task.is_idle)
        spy.reads.clear()
        assert chosen(live, Scope("o7", "p"), "e", package_id="k/7") == "b7"
        assert len(list(live.of(Scope("o7")))) == 200
        assert spy.reads == []


async def test_a_database_that_was_restored_from_a_copy_is_read_again(database: Database) -> None:
    made = await create(database)
    kept = await create(database, package="acme/wiki")
    async with running(database) as live:
        before = live.by_id(kept.binding_id)
        for text in (
            "DELETE FROM binding_revisions WHERE change = 1",
            "DELETE FROM bindings WHERE number = 1",
            "UPDATE meta SET value = '1' WHERE name = 'binding_changes'",
        ):
            await database.write(statement("restore", {None: text})())
        await live.refresh()
        assert live.by_id(made.binding_id) is None
        assert live.by_id(kept.binding_id) is before


async def test_changes_are_seen_without_a_word_and_at_once_when_announced(database: Database) -> None:
    clock = VirtualClock()
    async with running(database, clock) as live:
        made = await create(database)
        await until(lambda: clock.advance(live_bindings.LOOK_SECONDS) or live.by_id(made.binding_id))
        await until(lambda: live._task.is_idle)
        await patch(database, made, {"status": "disabled"})
        live.announce()
        await until(lambda: live.by_id(made.binding_id) is None)


async def test_a_lost_listener_misses_nothing(tmp_path: Path, postgres: Any) -> None:
    database = live_bindings_database(tmp_path, await postgres.create())
    lost = statement(
        "lost",
        {
            None: "SELECT count(pg_terminate_backend(pid)) AS n FROM pg_stat_activity WHERE datname = current_database()"
            " AND query LIKE 'LISTEN%'"
        },
    )
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: None)
    try:
        async with running(database) as live:  # its clock stands still
            made = await create(database)
            await until(lambda: live._database._listener is not None)
            await asyncio.sleep(0)
            ended = 0
            while not ended:
                ended = (await database.write(lost())).value()
            await patch(database, made, {"config": {"seen": True}})
            await until(lambda: (found := live.by_id(made.binding_id)) and found.config == {"seen": True})
    finally:
        await database.close()


def live_bindings_database(folder: Path, url: str | None) -> Any:
    from plughost.vai.database.open_database import open_database

    return open_database(str(folder), url)


async def test_changes_under_way_are_never_passed(database: Database) -> None:
    """Numbers are in the order of commits: a reader that sees a later change has seen all earlier ones."""
    async with running(database) as live, running(database) as final:
        seen: set[str] = set()

        async def read() -> None:
            while len(seen) < 40:
                await live.refresh()
                seen.update(live._live)
                await asyncio.sleep(0)

        made, _ = await asyncio.gather(
            asyncio.gather(*(create(database, package=f"acme/p{n}") for n in range(40))),
            asyncio.wait_for(read(), 30),
        )
        await final.refresh()
        assert live._live.keys() == final._live.keys() == {each.binding_id for each in made}


@pytest.mark.clause("GW-28", "VAI-65")
@pytest.mark.parametrize("how", ["announced", "looked for"])
async def test_another_process_sees_a_change_within_a_second(
    database: Database, database_url: str | None, tmp_path: Path, how: str
) -> None:
    if how == "announced" and database_url is None:
        pytest.skip("SQLite tells its own process only")
    made = await create(database, config={"n": 0})
    look = "3600" if how == "announced" else str(live_bindings.LOOK_SECONDS)
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.support.live_bindings_process",
        str(tmp_path), database_url or "-", look, made.binding_id,
        stdout=asyncio.subprocess.PIPE, cwd=ROOT,
    )  # fmt: skip
    assert process.stdout is not None

    async def line() -> tuple[float, Any]:
        text = await asyncio.wait_for(process.stdout.readline(), 30)
        return msgspec.json.decode(text, type=tuple[float, Any])

    try:
        assert (await line())[1] == {"n": 0}
        delays = []
        for number in range(1, 5):
            await patch(database, made, {"config": {"n": number}})
            committed = time.time()
            if how == "announced":
                database.announce(live_bindings.CHANNEL)
            at, config = await line()
            assert config == {"n": number}
            delays.append(at - committed)
        await patch(database, made, {"status": "disabled"})
        database.announce(live_bindings.CHANNEL)
        assert (await line())[1] is None
        assert max(delays) < 1.0, delays
    finally:
        process.send_signal(signal.SIGKILL)
        await process.wait()
        process._transport.close()


async def test_a_database_that_is_away_is_reported_once(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    from plughost.vai.database.errors import DatabaseUnavailable

    reported: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: reported.append(context))
    clock = VirtualClock()
    async with running(database, clock) as live:
        await until(lambda: live._task.is_idle)
        away, calls = True, 0
        real = live._refresh

        async def refresh() -> None:
            nonlocal calls
            calls += 1
            if away:
                raise DatabaseUnavailable("away")
            await real()

        monkeypatch.setattr(live, "_refresh", refresh)
        await until(lambda: clock.advance(live_bindings.LOOK_SECONDS) or calls > 3)
        assert len(reported) == 1
        away = False
        made = await create(database)
        await until(lambda: clock.advance(live_bindings.LOOK_SECONDS) or live.by_id(made.binding_id))


async def test_the_clock_of_the_event_loop_works_too(database: Database) -> None:
    async with running(database, LoopClock(asyncio.get_running_loop())) as live:
        made = await create(database)
        await until(lambda: live.by_id(made.binding_id))
