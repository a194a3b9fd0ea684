"""One runtime for a folder: it makes what is needed, closes it in order, and goes on where a killed one was."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

import plughost
from plughost.vai.invocations.invocation import Invocation
from plughost.vai.invocations.requests import ToolRequest
from tests.support import until
from tests.vai.invocations.conftest import TENANT, bound, over
from tests.vai.invocations.test_harness import ask, wanted, with_a_chain
from tests.vai.invocations.test_hooks import completed


def tool(**asked: Any) -> Invocation:
    return Invocation(binding=bound("reads"), work=ToolRequest(tool_execution_id="toolx_1", input=asked))


async def test_nothing_is_made_that_is_not_needed(runtime_of, ground: Path) -> None:
    runtime = await runtime_of(bound("reads"))
    assert (await runtime.invoke(tool(do="echo"))).ok
    assert not runtime.gateway.is_open
    await runtime.journal.flush()
    made = {path.name.partition(".")[0] + path.suffix for path in (ground / "state").iterdir()}
    assert {name for name in made if not name.endswith(".journal")} <= {"vai.db", "vai.db-wal", "vai.db-shm"}


@pytest.mark.clause("VAI-43")
async def test_what_a_killed_host_left_in_scratch_folders_is_gone_when_the_next_one_starts(
    runtime_of, ground: Path
) -> None:
    (ground / "plughost-scratch-left/1/inv_1").mkdir(parents=True)
    (ground / "plughost-scratch-left/1/inv_1/notes").write_text("of somebody")
    await runtime_of()
    assert not [*ground.glob("plughost-scratch-*")]


@pytest.mark.usefixtures("strict")
async def test_it_closes_what_runs_and_leaves_nothing(runtime_of, ground: Path) -> None:
    runtime = await runtime_of(bound("triage"), sandbox="strict")
    await with_a_chain(runtime)
    child = ask("POST", "/v1/runs", {"export": "triage", "input": [{"do": "wait"}]})
    heard: list[Any] = []
    task = asyncio.create_task(runtime.invoke(wanted(child, {"do": "wait"}), heard.append))
    await until(lambda: heard and len(runtime.gateway.guests) == 2)
    socket = Path(await runtime.gateway.open())
    assert socket.is_socket()
    assert socket.parent.stat().st_mode & 0o777 == 0o700
    await runtime.__aexit__(None, None, None)
    outcome = await task
    assert (outcome.status, outcome.reason) == ("cancelled", "host_closed")
    assert not socket.parent.exists()
    with pytest.raises(plughost.PluginError, match="closed"):
        await runtime.invoke(tool(do="echo"))
    again = await runtime_of()
    assert {each["status"] for each in await again.records.latest(10)} == {"cancelled"}
    (begun,) = [answer for _, answer in heard[0]["done"]]
    run = await again.state.runs.run(begun["run_id"])
    assert run.status == "cancelled"


HOST = textwrap.dedent(
    """
    import asyncio, json, sys
    from pathlib import Path
    from plughost.vai.bindings.bindings import FixedBindings
    from plughost.vai.invocations.options import InvokerOptions
    from plughost.vai.runtime import VaiRuntime
    from tests.vai.invocations.conftest import TENANT, Shelf, bound
    from tests.vai.invocations.test_harness import ask, wanted, with_a_chain
    from tests.vai.invocations.test_hooks import completed
    from tests.support import until

    async def main():
        ground = Path(sys.argv[1])
        bindings = FixedBindings([bound("triage"), bound("reacts")])
        options = InvokerOptions(scratch_base=str(ground), sandbox="strict")
        url, folder = sys.argv[2] or None, str(ground / "state")
        async with VaiRuntime(folder, Shelf(ground / "lab"), bindings, database=url, options=options) as runtime:
            await with_a_chain(runtime)
            await runtime.publish(TENANT, completed(1, ["wait", "ack"]))
            child = ask("POST", "/v1/runs", {"export": "triage", "input": [{"do": "wait"}]})
            heard = []
            task = asyncio.create_task(runtime.invoke(wanted(child, {"do": "wait"}), heard.append))
            await until(lambda: heard and len(runtime.invoker.running) == 3)
            await runtime.hooks.close()
            await runtime.publish(TENANT, completed(2))
            print(json.dumps(heard[0]), flush=True)
            await task

    asyncio.run(main())
    """
)


@pytest.mark.usefixtures("strict")
@pytest.mark.clause("VAI-54", "VAI-39", "VAI-59")
async def test_a_host_that_is_killed_in_the_middle_of_everything(
    runtime_of, ground: Path, runtime_url: str | None
) -> None:
    command = [sys.executable, "-c", HOST, str(ground), runtime_url or ""]
    environment = {**os.environ, "TMPDIR": str(ground)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as host:
        assert host.stdout is not None
        heard = json.loads(await asyncio.to_thread(host.stdout.readline))
        os.kill(host.pid, signal.SIGKILL)
    runtime = await runtime_of(bound("triage"), bound("reacts"))
    left = [each for each in await runtime.records.latest(10) if each["ended_at"] is not None]
    assert {(each["export_kind"], each["status"], each["reason"]) for each in left} >= {
        ("harness", "failed", "host_ended"),
        ("hook", "failed", "host_ended"),
    }
    ((_, child),) = heard["done"]
    run = await runtime.state.runs.run(child["run_id"])
    assert (run.status, run.reason) == ("failed", "host_ended")
    told = {each.event.subject.id: each for each in await over(runtime, 2)}
    assert (told["run_1"].status, told["run_1"].attempt) == ("acked", 2), "it was under way"
    assert (told["run_2"].status, told["run_2"].attempt) == ("acked", 1), "nobody had taken it yet"
    assert (await runtime.state.chains.chain("ch_1")).scope == TENANT
    await runtime.publish(TENANT, completed(3))
    assert len(await over(runtime, 3)) == 3


async def test_an_invocation_is_started_and_goes_on_by_itself(runtime_of) -> None:
    runtime = await runtime_of(bound("reads"))
    started = await runtime.start(tool(do="echo"))
    record = await runtime.records.get(started.invocation_id)
    assert record is not None, "its start is in the database before it begins"
    assert (await started.outcome).ok
    await runtime.journal.flush()
    assert (await runtime.records.get(started.invocation_id))["status"] == "succeeded"


async def test_one_key_starts_one_invocation_also_in_another_process(runtime_of) -> None:
    first, second = await runtime_of(bound("reads")), await runtime_of(bound("reads"))
    started = await asyncio.gather(
        *(runtime.start(tool(do="echo"), key="k") for runtime in (first, second) for _ in range(10))
    )
    assert len({each.invocation_id for each in started}) == 1
    (own,) = [each.outcome for each in started if each.outcome is not None]
    assert (await own).ok
    other = await first.start(tool(do="echo"), key="another")
    assert other.invocation_id != started[0].invocation_id
    assert (await other.outcome).ok
    assert len(await second.records.latest(9)) == 2


async def test_what_was_started_ends_with_its_host(runtime_of) -> None:
    runtime = await runtime_of(bound("reads"))
    started = await runtime.start(tool(do="wait"))
    await until(lambda: runtime.invoker.running)
    await runtime.__aexit__(None, None, None)
    assert (await started.outcome).reason == "host_closed"


async def test_a_start_that_is_cancelled_has_an_end(runtime_of) -> None:
    runtime = await runtime_of(bound("reads"))
    starting = asyncio.create_task(runtime.start(tool(do="echo"), key="k"))
    await until(lambda: runtime.invoker._starting)
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    await runtime.journal.flush()
    (record,) = await runtime.records.latest(9)
    assert (record["status"], record["reason"]) == ("cancelled", "cancelled")


async def test_a_start_during_the_close_of_its_host_has_an_end(runtime_of) -> None:
    runtime = await runtime_of(bound("reads"))
    starting = asyncio.create_task(runtime.start(tool(do="wait")))
    await until(lambda: runtime.invoker._starting)
    await runtime.invoker.close()
    with pytest.raises(plughost.Stopped):
        await starting
    await runtime.journal.flush()
    (record,) = await runtime.records.latest(9)
    assert (record["status"], record["reason"]) == ("cancelled", "host_closed")


async def test_what_was_started_can_be_cancelled_at_once(runtime_of) -> None:
    runtime = await runtime_of(bound("reads"))
    by_id, by_task = await runtime.start(tool(do="wait")), await runtime.start(tool(do="wait"))
    assert runtime.cancel(by_id.invocation_id)
    by_task.outcome.cancel()
    assert (await by_id.outcome).status == "cancelled"
    await asyncio.wait([by_task.outcome])
    await runtime.journal.flush()
    assert [row["status"] for row in await runtime.records.latest(9)] == ["cancelled", "cancelled"]
