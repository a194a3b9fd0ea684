"""An invocation as an async iterator."""

from __future__ import annotations

import asyncio
import contextlib

import msgspec
import pytest

import plughost
from plughost.vai.invocations.invocation import Invocation
from plughost.vai.invocations.outcome import Outcome
from plughost.vai.invocations.requests import ToolRequest
from plughost.vai.records.record import Finished
from tests.support import until
from tests.vai.invocations.conftest import Bench


def wanted(lab: Bench, **asked: object) -> Invocation:
    return Invocation(
        binding=lab.binding("reads"), work=ToolRequest(tool_execution_id="toolx_1", input=asked)
    )


@pytest.mark.clause("VAI-34", "VAI-03")
async def test_events_come_while_it_runs_and_the_outcome_last(bench) -> None:
    lab = bench()
    *events, outcome = [each async for each in lab.invoker.stream(wanted(lab, do="events", count=3))]
    assert [event["number"] for event in events] == [0, 1, 2]
    assert isinstance(outcome, Outcome)
    assert outcome.ok


@pytest.mark.clause("VAI-34")
async def test_an_event_is_heard_before_the_end(bench) -> None:
    lab = bench()
    async with contextlib.aclosing(lab.invoker.stream(wanted(lab, do="say and wait"))) as said:
        assert (await anext(said))["type"] == "waiting"
        (running,) = lab.invoker.running
        lab.invoker.cancel(running, "enough")
        outcome = await anext(said)
        assert outcome.reason == "enough"


@pytest.mark.clause("VAI-36")
async def test_whoever_stops_listening_cancels_it(bench) -> None:
    lab = bench()
    async with contextlib.aclosing(lab.invoker.stream(wanted(lab, do="say and wait"))) as said:
        await anext(said)
    assert not lab.invoker.running
    assert [(each.status, each.reason) for each in lab.kept.of(Finished)] == [("cancelled", "listener_gone")]


async def test_a_listener_that_is_cancelled_takes_it_along(bench) -> None:
    lab = bench()

    async def listen() -> None:
        async with contextlib.aclosing(lab.invoker.stream(wanted(lab, do="wait"))) as said:
            await anext(said)

    task = asyncio.create_task(listen())
    await until(lambda: lab.invoker.running)
    task.cancel()
    await asyncio.wait([task])
    assert task.cancelled()
    assert not lab.invoker.running


async def test_what_cannot_begin_is_told_to_who_listens(bench) -> None:
    lab = bench()
    unknown = msgspec.structs.replace(lab.binding("reads"), export_id="other")
    with pytest.raises(plughost.InvalidSpec, match="no export"):
        await anext(lab.invoker.stream(msgspec.structs.replace(wanted(lab, do="echo"), binding=unknown)))
