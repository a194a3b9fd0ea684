"""Runs: an invocation may start so many, and no more."""

import asyncio

from plughost.vai.database.database import Database
from plughost.vai.state.runs import RunRecord
from plughost.vai.state.state import TenantState


async def test_runs_that_start_at_once_are_not_more_than_the_limit(database: Database) -> None:
    await database.open()
    runs = TenantState(database).runs
    starts = (runs.start(RunRecord(org_id="org_1", invocation_id="inv_1"), 3) for _ in range(30))
    assert sum(await asyncio.gather(*starts)) == 3
    assert await runs.start(RunRecord(org_id="org_1", invocation_id="inv_2"), 3), "it has a limit of its own"
