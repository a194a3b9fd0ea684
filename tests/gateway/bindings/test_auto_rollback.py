"""Automatic rollback: a new version that fails too often gets no traffic, and callers cannot force that."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from plughost.gateway import audit
from plughost.gateway.bindings import lookups, rollback_watch
from plughost.gateway.bindings.auto_rollback import (
    Counts,
    RollbackSettings,
    plugin_failed,
    roll_back_version,
    rollback_reason,
)
from plughost.gateway.bindings.documents import BindingDocument
from plughost.gateway.bindings.live_bindings import Choice, LiveBindings
from plughost.gateway.bindings.rollback_watch import SLOT_SECONDS, RollbackWatch
from plughost.testing import VirtualClock
from plughost.vai.database.database import Database
from plughost.vai.database.statements import statement
from plughost.vai.invocations.outcome import Outcome
from plughost.vai.state.outbox import Outbox
from tests.gateway.bindings.support import ORG, PROJECT, create, get, patch, percents, share
from tests.support import until

SUCCEEDED = Outcome(invocation_id="inv_1", status="succeeded")
CRASHED = Outcome(invocation_id="inv_1", status="failed", reason="crashed")
DEFAULTS = RollbackSettings()


@pytest.mark.clause("GW-29")
@pytest.mark.parametrize(
    ("status", "reason", "counts"),
    [
        ("succeeded", None, False),
        ("failed", "crashed", True),
        ("retryable_failure", "crashed", True),
        ("failed", "invalid_output", True),
        ("failed", "protocol_failure", True),
        ("failed", "budget_exceeded", True),
        ("failed", "plugin:quota", True),
        ("failed", "plugin_said_so", True),
        ("cancelled", "deadline_exceeded", True),
        ("failed", "invalid_input", None),
        ("failed", "invalid_request", None),
        ("failed", "host_failure", None),
        ("retryable_failure", "no_room", None),
        ("retryable_failure", "damaged", None),
        ("retryable_failure", "collateral", None),
        ("cancelled", "cancelled", None),
        ("cancelled", "host_closed", None),
        ("cancelled", "plugin:looks like it", None),
        ("failed", None, None),
    ],
)
def test_only_failures_that_the_plugin_caused_count(
    status: str, reason: str | None, counts: bool | None
) -> None:
    outcome = Outcome(invocation_id="inv_1", status=status, reason=reason)
    assert plugin_failed(outcome, callers_deadline=False) is counts


@pytest.mark.clause("GW-29")
def test_a_deadline_of_the_caller_does_not_count() -> None:
    late = Outcome(invocation_id="inv_1", status="cancelled", reason="deadline_exceeded")
    assert plugin_failed(late, callers_deadline=True) is None


@pytest.mark.clause("GW-29")
@pytest.mark.parametrize(
    ("new", "old", "decided"),
    [
        (Counts(39, 11), Counts(500, 0), True),
        (Counts(38, 11), Counts(500, 0), False),  # 49 invocations are too few
        (Counts(45, 5), Counts(500, 0), False),  # 10 points are not more than 10
        (Counts(44, 6), Counts(500, 0), True),
        (Counts(44, 6), Counts(98, 2), False),
        (Counts(0, 50), Counts(0, 50), False),  # what both call is down
        (Counts(25, 25), Counts(), True),
    ],
)
def test_the_decision_needs_the_margin_and_enough_invocations(
    new: Counts, old: Counts, decided: bool
) -> None:
    why = rollback_reason(new, old, DEFAULTS)
    assert (why is not None) is decided


@given(st.integers(0, 400), st.integers(0, 400), st.integers(0, 400), st.integers(0, 400))
def test_more_failures_never_save_a_version(
    succeeded: int, failed: int, old_ok: int, old_failed: int
) -> None:
    old = Counts(old_ok, old_failed)
    if rollback_reason(Counts(succeeded, failed), old, DEFAULTS) is not None:
        assert rollback_reason(Counts(succeeded, failed + 1), old, DEFAULTS) is not None


async def rolled_back_events(database: Database) -> list[Any]:
    return [each for each in await Outbox(database).waiting() if each.event.type == "binding.rolled_back"]


async def audited(database: Database) -> list[tuple[str, str, str]]:
    rows = (await database.read(audit.LIST.query({"org": "org_1"}, 10))).rows
    return [(row["actor"], row["action"], row["target"]) for row in rows]


@pytest.mark.clause("GW-29")
async def test_a_rollback_is_a_revision_an_audit_line_and_an_event_or_nothing(database: Database) -> None:
    first, second = await create(database), await create(database, "2.0.0")
    raised = await patch(database, second, share(30))
    done = await database.write(roll_back_version, second.binding_id, raised.revision, "it fails")
    assert done is not None
    assert await percents(database, first, second) == [100, 0]
    (event,) = await rolled_back_events(database)
    assert event.scope == PROJECT
    assert event.event.subject.id == second.binding_id
    assert event.event.summary["reason"] == "it fails"
    assert event.event.summary["serving_version"] == "1.0.0"
    assert await audited(database) == [("gateway:auto_rollback", "bindings.auto_rollback", second.binding_id)]
    found = await database.read(lookups.revisions, ORG, second.binding_id, None, 1)
    assert (found.items[0].action, found.items[0].note) == ("auto_rollback", "it fails")


@pytest.mark.clause("GW-29")
async def test_of_processes_that_decide_at_once_one_rolls_back(database: Database) -> None:
    _, second = await create(database), await create(database, "2.0.0")
    raised = await patch(database, second, share(30))
    results = await asyncio.gather(
        *(database.write(roll_back_version, second.binding_id, raised.revision, "it fails") for _ in range(8))
    )
    assert sum(each is not None for each in results) == 1
    assert len(await rolled_back_events(database)) == 1
    assert len(await audited(database)) == 1


async def test_nothing_is_rolled_back_without_another_version_or_a_share(database: Database) -> None:
    only = await create(database)
    assert await database.write(roll_back_version, only.binding_id, 1, "x") is None
    second = await create(database, "2.0.0")
    assert await database.write(roll_back_version, second.binding_id, 1, "x") is None
    assert await database.write(roll_back_version, "bind_none", 1, "x") is None
    assert await audited(database) == []


class Gateway:
    """A gateway process, as far as rollbacks go."""

    def __init__(self, database: Database, settings: RollbackSettings = DEFAULTS) -> None:
        self.clock = VirtualClock()
        self.now = 1_000_000.0
        self.live = LiveBindings(database, VirtualClock())
        self.watch = RollbackWatch(database, self.live, self.clock, settings, now=lambda: self.now)

    async def __aenter__(self) -> Gateway:
        await self.live.start()
        return self

    async def __aexit__(self, *args: object) -> None:
        await self.watch.close()
        await self.live.close()

    def choice(self, binding: BindingDocument) -> Choice:
        versions = self.live.versions_with(binding.binding_id)
        (chosen,) = [each for each in versions if each.binding.binding_id == binding.binding_id]
        return Choice(chosen, "project", len(versions) > 1)

    def record(
        self, binding: BindingDocument, outcome: Outcome, times: int, *, callers_deadline: bool = False
    ) -> None:
        for _ in range(times):
            self.watch.record(self.choice(binding), outcome, callers_deadline=callers_deadline)


async def rollout(database: Database, percent: int = 30) -> tuple[BindingDocument, BindingDocument]:
    first, second = await create(database), await create(database, "2.0.0")
    await patch(database, second, share(percent))
    return first, second


@pytest.mark.clause("GW-29")
async def test_a_new_version_that_fails_is_rolled_back_and_calls_go_to_the_other(database: Database) -> None:
    first, second = await rollout(database)
    async with Gateway(database) as gateway:
        gateway.record(first, SUCCEEDED, 200)
        gateway.record(second, SUCCEEDED, 40)
        gateway.record(second, CRASHED, 9)
        assert await gateway.watch.decide() == []
        gateway.record(second, CRASHED, 1)
        assert await gateway.watch.decide() == [second.binding_id]
        await gateway.live.refresh()
        assert {gateway.live.choose(PROJECT, "search", f"k{n}").binding.binding_id for n in range(50)} == {
            first.binding_id
        }
        gateway.record(second, CRASHED, 100)
        assert await gateway.watch.decide() == []  # it has no traffic to take away


@pytest.mark.clause("GW-29")
async def test_what_callers_cause_rolls_nothing_back(database: Database) -> None:
    first, second = await rollout(database)
    late = Outcome(invocation_id="inv_1", status="cancelled", reason="deadline_exceeded")
    async with Gateway(database) as gateway:
        gateway.record(first, SUCCEEDED, 100)
        gateway.record(second, SUCCEEDED, 60)
        for status, reason in (
            ("failed", "invalid_input"),
            ("cancelled", "cancelled"),
            ("retryable_failure", "no_room"),
        ):
            gateway.record(second, Outcome(invocation_id="i", status=status, reason=reason), 500)
        gateway.record(second, late, 500, callers_deadline=True)
        assert await gateway.watch.decide() == []
        gateway.record(second, late, 20)
        assert await gateway.watch.decide() == [second.binding_id]


@pytest.mark.clause("GW-29")
async def test_processes_decide_on_the_sums_of_all(database: Database) -> None:
    _, second = await rollout(database)
    async with Gateway(database) as one, Gateway(database) as other:
        for gateway in (one, other):
            gateway.record(second, SUCCEEDED, 20)
            gateway.record(second, CRASHED, 5)
        assert await one.watch.decide() == []
        assert await other.watch.decide() == [second.binding_id]


@pytest.mark.clause("GW-29")
async def test_only_the_window_counts(database: Database) -> None:
    first, second = await rollout(database)
    async with Gateway(database) as gateway:
        gateway.record(first, CRASHED, 300)
        gateway.record(second, CRASHED, 40)
        assert await gateway.watch.decide() == []
        gateway.now += DEFAULTS.window_seconds + SLOT_SECONDS
        gateway.record(first, SUCCEEDED, 300)
        gateway.record(second, SUCCEEDED, 45)
        gateway.record(second, CRASHED, 4)
        assert await gateway.watch.decide() == []  # 49 invocations
        gateway.record(second, CRASHED, 4)
        assert await gateway.watch.decide() == [second.binding_id]
    rows = (
        await database.read(statement("rows", {None: "SELECT DISTINCT slot FROM binding_outcomes"})())
    ).rows
    assert len(rows) == 1, "old sums are removed"


@pytest.mark.clause("GW-29")
async def test_counting_starts_again_when_the_new_version_is_changed(database: Database) -> None:
    _, second = await rollout(database)
    async with Gateway(database) as gateway:
        gateway.record(second, CRASHED, 49)
        assert await gateway.watch.decide() == []
        await patch(database, second, {"config": {"fixed": True}})
        await gateway.live.refresh()
        gateway.record(second, SUCCEEDED, 60)
        assert await gateway.watch.decide() == []
        assert (await get(database, second)).traffic_percent == 30


async def test_an_old_version_is_never_rolled_back(database: Database) -> None:
    first, second = await rollout(database)
    async with Gateway(database) as gateway:
        gateway.record(first, CRASHED, 500)
        gateway.record(second, SUCCEEDED, 500)
        assert await gateway.watch.decide() == []


async def test_without_a_rollout_nothing_is_counted(database: Database) -> None:
    only = await create(database)
    async with Gateway(database) as gateway:
        gateway.record(only, CRASHED, 100)
        assert await gateway.watch.decide() == []
    rows = (await database.read(statement("rows", {None: "SELECT slot FROM binding_outcomes"})())).rows
    assert rows == []


async def test_the_decision_comes_by_itself_a_few_seconds_later(database: Database) -> None:
    _, second = await rollout(database)
    async with Gateway(database) as gateway:
        gateway.record(second, CRASHED, 60)
        gateway.clock.advance(SLOT_SECONDS)
        await until(lambda: gateway.choice(second).chosen.traffic_percent == 0)
        assert gateway.watch._task.is_idle


async def test_counts_wait_for_a_database_that_is_away(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, second = await rollout(database)
    async with Gateway(database) as gateway:
        gateway.record(second, CRASHED, 60)
        with monkeypatch.context() as patched:
            patched.setattr(
                rollback_watch, "ADD", statement("add", {None: "INSERT INTO gone VALUES (:slot)"})
            )
            with pytest.raises(Exception, match="gone"):
                await gateway.watch.decide()
        assert await gateway.watch.decide() == [second.binding_id]


def test_the_reason_has_the_numbers() -> None:
    why = rollback_reason(Counts(30, 30), Counts(99, 1), DEFAULTS)
    assert why == (
        "50.0 % of 60 invocations failed, and 1.0 % of 100 of the other version, within 300 seconds"
    )
    assert msgspec.structs.asdict(DEFAULTS) == {
        "window_seconds": 300.0,
        "margin_points": 10.0,
        "min_invocations": 50,
    }


@pytest.mark.clause("GW-29")
async def test_a_version_that_was_changed_since_the_decision_is_left_alone(database: Database) -> None:
    first, second = await rollout(database)
    decided = (await get(database, second)).revision
    await patch(database, second, {"config": {"fixed": True}})
    assert await database.write(roll_back_version, second.binding_id, decided, "it fails") is None
    assert await percents(database, first, second) == [70, 30]
