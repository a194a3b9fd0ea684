"""A caller may leave at any step of an invocation: it is recorded once, and leaves nothing behind."""

from __future__ import annotations

import asyncio
import types
from collections.abc import Coroutine, Generator
from typing import Any

import pytest

from plughost.invocations.invocation import Invocation
from plughost.invocations.record import Began, Ended
from plughost.invocations.work import Tool
from tests.invocations.conftest import Bench
from tests.support import until

STEPS = 40


@types.coroutine
def cancelled_at(step: int, work: Coroutine[Any, Any, Any]) -> Generator[Any, Any, Any]:
    """`work`, whose task is cancelled when it waits for the `step`th time."""
    task = asyncio.current_task()
    assert task is not None
    thrown: BaseException | None = None
    waits = 0
    while True:
        try:
            awaited = work.send(None) if thrown is None else work.throw(thrown)
        except StopIteration as done:
            return done.value
        waits += 1
        if waits == step:
            asyncio.get_running_loop().call_soon(task.cancel, "caller left")
        try:
            yield awaited
            thrown = None
        except BaseException as error:
            thrown = error


async def left_at(lab: Bench, step: int, org: str) -> bool:
    """Whether its caller left before it was over."""
    binding = lab.binding("writes", org)
    wanted = Invocation(binding=binding, work=Tool(tool_execution_id="toolx_1", input={"do": "leave"}))
    task = asyncio.create_task(_awaited(cancelled_at(step, lab.invoker.invoke(wanted))))
    await asyncio.wait([task])
    gate = (await lab.invoker.prepare(binding)).gate
    assert (len(gate), gate._free) == (0, 2), "its place is free"
    return task.cancelled()


async def _awaited(steps: Any) -> Any:
    return await steps


@pytest.mark.clause("VAI-39", "VAI-43", "VAI-36")
@pytest.mark.parametrize("reuse", ["binding", "invocation"])
async def test_whoever_leaves_at_whatever_step_leaves_nothing(bench, reuse: str) -> None:
    lab = bench(reuse=reuse)
    step, left = 1, True
    while left:
        assert step < STEPS
        left = await left_at(lab, step, f"org_{step}" if step < 12 else "org_1")
        assert not list(lab.folder.glob("plughost-scratch-*/*/inv_*")), step
        step += 1
    assert step > 4
    ids = [each.invocation_id for each in lab.kept.of(Began)]
    assert [each.invocation_id for each in lab.kept.of(Ended)] == ids
    assert len(ids) == step - 2, "all but the one that was left while its schema was compiled: it had not begun"
    assert not lab.invoker.running
    assert all(not process.users for process in lab.invoker.pool._all_warm())
    if reuse == "invocation":
        await until(lambda: not len(lab.invoker.pool))
        assert not lab.host.plugins
        assert not list(lab.folder.glob("plughost-scratch-*/*")), "nor is a folder of a process left"


@pytest.mark.clause("VAI-36")
async def test_a_cancel_of_the_host_does_not_swallow_that_of_the_caller(bench) -> None:
    lab = bench()
    task = asyncio.create_task(lab.tool(do="wait"))
    await until(lambda: lab.invoker.running)
    lab.invoker.cancel(lab.invoker.running[0], "enough")
    task.cancel()
    await asyncio.wait([task])
    assert task.cancelled()
    assert [(each.status, each.reason) for each in lab.kept.of(Ended)] == [("cancelled", "enough")]
