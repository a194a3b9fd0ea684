"""A host that is killed: it invokes tools, starts and finishes runs and publishes events, as fast as it can.

Each line on stdout is something that was acknowledged: `inv ID`, `result TOOL_EXECUTION_ID`, `run ID`, `event ID`.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import sys
from pathlib import Path

import msgspec

from plughost.contracts.vai.request_bodies import EventSubject, HookEvent
from plughost.errors import PluginError
from plughost.vai.bindings.bindings import FixedBindings
from plughost.vai.invocations.invocation import Invocation, Related
from plughost.vai.invocations.options import InvokerOptions
from plughost.vai.invocations.requests import ToolRequest
from plughost.vai.runtime import VaiRuntime
from plughost.vai.state.chains import Chain
from plughost.vai.state.runs import RunRecord
from tests.vai.invocations.conftest import TENANT, Shelf, bound
from tests.vai.invocations.test_hooks import completed

OWNER = {"org_id": TENANT.org_id, "project_id": TENANT.project_id}


def runtime_for(ground: Path, url: str | None) -> VaiRuntime:
    return VaiRuntime(
        str(ground / "state"),
        Shelf(ground / "lab"),
        FixedBindings([bound("reads"), bound("reacts")]),
        database=url,
        options=InvokerOptions(scratch_base=str(ground), sandbox="none"),
        lease=2.0,
    )


async def main(ground: Path, url: str | None, name: str) -> None:
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: None)
    async with runtime_for(ground, url) as runtime:
        with contextlib.suppress(PluginError):
            await runtime.state.chains.create(Chain(chain_id="ch_1", **OWNER))
        print("ready", flush=True)
        await asyncio.gather(*(work(runtime, name, lane) for lane in range(4)))


async def work(runtime: VaiRuntime, name: str, lane: int) -> None:
    for number in itertools.count():
        own = f"{name}_{lane}_{number}"
        try:
            await one(runtime, own)
        except PluginError:
            await asyncio.sleep(0.02)  # the server is away for a moment


async def one(runtime: VaiRuntime, own: str) -> None:
    wanted = Invocation(
        binding=bound("reads"),
        work=ToolRequest(tool_execution_id=f"toolx_{own}", input={"do": "echo"}),
        related=Related(chain_id="ch_1"),
    )
    for outcome in await asyncio.gather(runtime.invoke(wanted), runtime.invoke(wanted)):
        if outcome.ok:
            print("inv", outcome.invocation_id, flush=True)
            print("result", f"toolx_{own}", flush=True)
    run = RunRecord(run_id=f"run_{own}", **OWNER)
    if await runtime.state.runs.start(run) and await runtime.state.runs.finish(run.run_id, "succeeded"):
        print("run", run.run_id, flush=True)
    await runtime.publish(TENANT, event(own))
    print("event", f"run_{own}_event", flush=True)


def event(own: str) -> HookEvent:
    return msgspec.structs.replace(completed(1), subject=EventSubject("run", f"run_{own}_event"))


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2] or None, sys.argv[3]))
