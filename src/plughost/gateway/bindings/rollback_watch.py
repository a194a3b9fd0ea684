"""RollbackWatch: counts the outcomes of versions in a rollout, and rolls back a new one that fails too often.

Each process adds its counts to sums in the database every few seconds, so that the decision is about the
invocations of all processes. Outcomes of a new version count for the revision that served them: when its
share or configuration changes, counting starts again.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable

from plughost.clock import Clock
from plughost.gateway.bindings.auto_rollback import (
    Counts,
    RollbackSettings,
    plugin_failed,
    roll_back_version,
    rollback_reason,
)
from plughost.gateway.bindings.live_bindings import Choice, LiveBinding, LiveBindings
from plughost.vai.background import BackgroundTask
from plughost.vai.database.database import Database, Steps
from plughost.vai.database.statements import Row, load_statements
from plughost.vai.invocations.outcome import Outcome
from plughost.vai.state.outbox import CHANNEL as EVENTS

_SQL = load_statements(__file__)
ADD, SUMS, FORGET = (_SQL[name] for name in ("add", "sums", "forget"))

SLOT_SECONDS = 5.0
"""The time that one row of sums covers, and the time between two decisions."""

_Key = tuple[str, int, int]
"""Binding, revision and slot."""


class RollbackWatch:
    """Counts outcomes, and rolls back new versions. `record` every outcome of a chosen binding."""

    def __init__(
        self,
        database: Database,
        live: LiveBindings,
        clock: Clock,
        settings: RollbackSettings | None = None,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._database = database
        self._live = live
        self._settings = settings or RollbackSettings()
        self._now = now
        self._succeeded: Counter[_Key] = Counter()
        self._failed: Counter[_Key] = Counter()
        self._task = BackgroundTask(
            self._work, clock, failure="a failing version may not be rolled back", retry_seconds=SLOT_SECONDS
        )
        self._is_waiting = False

    def record(self, choice: Choice, outcome: Outcome, *, callers_deadline: bool) -> None:
        """Counts the outcome of an invocation. `callers_deadline`: see `plugin_failed`."""
        if not choice.is_shared:
            return
        failed = plugin_failed(outcome, callers_deadline=callers_deadline)
        if failed is None:
            return
        chosen = choice.chosen
        key = (chosen.binding.binding_id, chosen.revision, self._slot())
        (self._failed if failed else self._succeeded)[key] += 1
        if not self._is_waiting:
            self._is_waiting = True
            self._task.wake_in(SLOT_SECONDS)

    async def decide(self) -> list[str]:
        """Adds the counts of this process to the sums, and rolls back what fails too often. Returns the ids
        of the bindings that it rolled back."""
        newer = await self._flush()
        rolled_back = []
        for new, old in newer:
            ids = [new.binding.binding_id, old.binding.binding_id]
            rows = (await self._database.read(SUMS(ids=ids, after=self._slot() - self._slots()))).rows
            why = rollback_reason(
                _counts(rows, new.binding.binding_id, new.revision),
                _counts(rows, old.binding.binding_id),
                self._settings,
            )
            if why is None:
                continue
            done = await self._database.write(roll_back_version, new.binding.binding_id, new.revision, why)
            if done is not None:
                rolled_back.append(done.binding_id)
        if rolled_back:
            self._live.announce()
            self._database.announce(EVENTS)
        return rolled_back

    async def close(self) -> None:
        """Stops deciding. Counts of the last seconds are dropped: another process has its own."""
        await self._task.close()

    async def _work(self) -> None:
        self._is_waiting = False
        await self.decide()

    async def _flush(self) -> list[tuple[LiveBinding, LiveBinding]]:
        """Stores the counts, and returns the rollouts that these are about: new and old version."""
        succeeded, self._succeeded = self._succeeded, Counter()
        failed, self._failed = self._failed, Counter()
        try:
            await self._database.write_unsynced(_store, succeeded, failed, self._slot() - self._slots())
        except BaseException:
            oldest = self._slot() - self._slots()  # what is older would not count any more
            self._succeeded.update({key: n for key, n in succeeded.items() if key[2] > oldest})
            self._failed.update({key: n for key, n in failed.items() if key[2] > oldest})
            raise
        rollouts = {}
        for binding_id, _, _ in {*succeeded, *failed}:
            versions = self._live.versions_with(binding_id)
            if len(versions) == 2 and versions[-1].traffic_percent > 0:
                rollouts[versions[-1].binding.binding_id] = (versions[-1], versions[0])
        return [*rollouts.values()]

    def _slot(self) -> int:
        return int(self._now() // SLOT_SECONDS)

    def _slots(self) -> int:
        """Slots of the window."""
        return max(int(self._settings.window_seconds / SLOT_SECONDS), 1)


def _store(succeeded: Counter[_Key], failed: Counter[_Key], too_old: int) -> Steps[None]:
    # In one order, so that processes do not wait for each other in a circle.
    keys = sorted({*succeeded, *failed})
    yield ADD.each(
        {
            "binding_id": key[0],
            "revision": key[1],
            "slot": key[2],
            "succeeded": succeeded[key],
            "failed": failed[key],
        }
        for key in keys
    )
    yield FORGET(before=too_old)


def _counts(rows: Iterable[Row], binding_id: str, revision: int | None = None) -> Counts:
    its = [row for row in rows if row["binding_id"] == binding_id and revision in (None, row["revision"])]
    return Counts(sum(row["succeeded"] for row in its), sum(row["failed"] for row in its))
