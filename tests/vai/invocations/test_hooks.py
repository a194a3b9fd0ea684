"""Events reach the hooks that subscribe to them, and only those, through real processes."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import msgspec
import pytest

from plughost.contracts.vai.request_bodies import CompactionTarget, EventSubject, HookEvent
from plughost.vai.bindings.binding import Scope
from plughost.vai.bindings.bindings import FixedBindings
from plughost.vai.database.statements import statement
from plughost.vai.invocations.invocation import Invocation
from plughost.vai.invocations.requests import CompactionRequest
from plughost.vai.retry_policy import Backoff
from plughost.vai.runtime import VaiRuntime
from plughost.vai.state.chains import Block, Chain
from plughost.vai.state.runs import RunRecord
from tests.support import until
from tests.vai.invocations.conftest import TENANT, bound, over

SOON = Backoff(attempts=3, first=0.01, jitter=0.0)
ORG = Scope("org_1")


def completed(number: int = 1, answer: Any = "ack") -> HookEvent:
    return HookEvent(
        type="run.completed",
        occurred_at="2026-03-12T19:00:00Z",
        subject=EventSubject("run", f"run_{number}"),
        summary={"answer": answer},
    )


async def invocations(runtime: VaiRuntime) -> list[dict[str, Any]]:
    await runtime.journal.flush()
    return await runtime.records.latest(100)


@pytest.mark.clause("VAI-53", "VAI-54")
async def test_an_event_goes_to_whoever_subscribes_in_its_project(runtime_of) -> None:
    runtime = await runtime_of(
        bound("reacts", TENANT, "own"),
        bound("reacts", ORG, "whole organisation"),
        bound("reacts", Scope("org_1", "proj_2"), "another project"),
        bound("reacts", Scope("org_2", "proj_1"), "another organisation"),
        bound("watches", TENANT, "other events"),
        bound("reads", TENANT, "no hook"),
    )
    await runtime.publish(TENANT, completed(1))
    (own,) = await over(runtime, 1)
    assert (own.binding_id, own.status, own.attempt) == ("own", "acked", 1), "it wins over its organisation's"
    await runtime.publish(Scope("org_1", "proj_3"), completed(2))
    (whole,) = [each for each in await over(runtime, 2) if each.binding_id != "own"]
    assert whole.binding_id == "whole organisation"
    for record, delivery, project in zip(
        await invocations(runtime), (whole, own), ("proj_3", "proj_1"), strict=True
    ):
        assert (record["export_kind"], record["status"]) == ("hook", "succeeded")
        assert (record["execution_id"], record["run_id"]) == (delivery.delivery_id, delivery.event.subject.id)
        assert (record["org_id"], record["project_id"]) == ("org_1", project)


@pytest.mark.clause("VAI-38", "VAI-54")
async def test_what_fails_for_now_is_tried_again_and_what_fails_for_good_is_not(runtime_of) -> None:
    runtime = await runtime_of(bound("reacts"), deliveries=SOON)
    await runtime.publish(TENANT, completed(1, ["retryable_failure", "ack"]))
    await runtime.publish(TENANT, completed(2, "failed"))
    await runtime.publish(TENANT, completed(3, "retryable_failure"))
    told = {each.event.subject.id: each for each in await over(runtime, 3)}
    assert (told["run_1"].status, told["run_1"].attempt) == ("acked", 2)
    assert (told["run_2"].status, told["run_2"].attempt) == ("dead", 1)
    assert (told["run_3"].status, told["run_3"].attempt) == ("dead", 3)
    tries = [each["execution_id"] for each in await invocations(runtime)]
    assert [tries.count(told[f"run_{n}"].delivery_id) for n in (1, 2, 3)] == [2, 1, 3]


@pytest.mark.clause("VAI-54")
async def test_a_hook_that_is_gone_is_a_dead_letter_that_says_why(runtime_of) -> None:
    runtime = await runtime_of(bound("reacts"), deliveries=SOON)
    known = runtime._bindings._bindings
    broken = msgspec.structs.replace(bound("watches"), package_version="9.9.9")
    known["bind_watches"] = broken
    await runtime.deliveries.publish(completed(1), ["bind_gone", "bind_watches"], TENANT)
    await runtime.publish(TENANT, completed(2))
    told = {each.binding_id: each for each in await over(runtime, 3)}
    assert (told["bind_gone"].status, told["bind_gone"].why) == (
        "dead",
        "the binding bind_gone no longer exists",
    )
    assert (told["bind_watches"].status, told["bind_watches"].why) == (
        "dead",
        "acme/lab 9.9.9 is not installed",
    )
    assert told["bind_reacts"].status == "acked", "whom the same event concerns is told all the same"


@pytest.mark.clause("VAI-54")
async def test_a_run_that_is_finished_is_told_and_one_that_is_cut_off_is_not(runtime_of) -> None:
    runtime = await runtime_of(bound("reacts"))
    runs, where = runtime.state.runs, {"org_id": "org_1", "project_id": "proj_1", "invocation_id": "inv_1"}
    for number in (1, 2, 3):
        await runs.start(RunRecord(run_id=f"run_{number}", task="Fix auth redirect bug", **where))
    assert await runs.finish("run_1", "succeeded", output="Patched route handler")
    assert not await runs.finish("run_1", "failed"), "it is over"
    assert await runs.finish("run_2", "cancelled")
    await runs.end_all_of("inv_1", "cancelled", "parent_ended")
    (told,) = await over(runtime, 1)
    assert (told.event.type, told.event.subject) == ("run.completed", EventSubject("run", "run_1"))
    assert told.event.summary == {
        "task": "Fix auth redirect bug",
        "output": "Patched route handler",
        "status": "succeeded",
    }


@pytest.mark.clause("VAI-54", "VAI-56")
async def test_a_compaction_is_told_once(runtime_of) -> None:
    runtime = await runtime_of(bound("watches"), bound("shortens"))
    await runtime.state.chains.create(
        Chain(chain_id="ch_1", org_id="org_1", project_id="proj_1"), [Block("input", [])]
    )
    work = CompactionRequest(
        compaction_id="cmp_1",
        chain_id="ch_1",
        blocks=[],
        token_estimate=1,
        target=CompactionTarget(1000, "m"),
    )
    for _ in range(2):
        outcome = await runtime.invoke(Invocation(binding=bound("shortens"), work=work))
        assert outcome.ok, outcome
    (told,) = await over(runtime, 1)
    assert (told.event.type, told.event.subject) == ("chain.compacted", EventSubject("chain", "ch_1"))
    assert told.event.summary == {
        "compaction_id": "cmp_1",
        "derived_chain_id": outcome.result["derived_chain_id"],
    }


@pytest.mark.usefixtures("strict")
@pytest.mark.clause("VAI-05", "VAI-41", "VAI-59")
async def test_a_hook_may_look_and_begins_nothing(runtime_of) -> None:
    runtime = await runtime_of(bound("watches"), sandbox="strict")
    await runtime.state.runs.start(RunRecord(run_id="run_1", org_id="org_1", project_id="proj_1"))
    probe = msgspec.structs.replace(completed(1, "ask"), type="lab.probe")
    await runtime.publish(TENANT, probe)
    (told,) = await over(runtime, 1)
    assert told.why == "[403, 200]"


async def test_what_happens_while_nobody_listens_is_told_later(runtime_of, ground) -> None:
    first = await runtime_of(bound("reads"))
    await first.publish(TENANT, completed(1))
    await until(lambda: first.hooks._task.is_idle)
    assert await first.deliveries.all() == [], "nobody subscribes"
    await first.hooks.close()
    await first.publish(TENANT, completed(2))
    second = await runtime_of(bound("reacts"))
    (told,) = await over(second, 1)
    assert told.event == completed(2)


@pytest.mark.clause("VAI-54")
async def test_an_attempt_that_was_cut_short_is_made_again(runtime_of) -> None:
    first = await runtime_of(bound("reacts"))
    await first.publish(TENANT, completed(1, ["wait", "ack"]))
    await until(lambda: first.invoker.running)
    await first.__aexit__(None, None, None)
    second = await runtime_of(bound("reacts"))
    (told,) = await over(second, 1)
    assert (told.status, told.attempt) == ("acked", 2)


@pytest.mark.clause("VAI-54")
async def test_a_host_leaves_the_events_of_tenants_that_it_does_not_serve(runtime_of) -> None:
    theirs = Scope("org_2", "proj_1")
    first = await runtime_of(bound("reacts", TENANT))
    await first.publish(theirs, completed(1))
    await first.deliveries.publish(completed(2), ["bind_theirs"], theirs)
    await first.publish(TENANT, completed(3))
    await until(lambda: first.hooks._task.is_idle)
    for _ in range(3000):
        told = {each.event.subject.id: each.status for each in await first.deliveries.all()}
        if told.get("run_3") == "acked":
            break
        await asyncio.sleep(0.01)
    assert told == {"run_2": "pending", "run_3": "acked"}
    await first.__aexit__(None, None, None)
    second = await runtime_of(bound("reacts", theirs, "bind_theirs"))
    assert {each.status for each in await over(second, 3)} == {"acked"}


@pytest.mark.clause("VAI-54")
async def test_no_delivery_goes_to_another_tenants_binding_or_to_one_that_wants_other_events(
    runtime_of,
) -> None:
    other = Scope("org_2", "proj_1")
    runtime = await runtime_of(bound("reacts"), bound("watches"), bound("reads", other))
    await runtime.deliveries.publish(completed(1), ["bind_reacts"], other)
    await runtime.deliveries.publish(completed(2), ["bind_watches"], TENANT)
    runtime.deliveries.start()
    told = {each.event.subject.id: each.why for each in await over(runtime, 2)}
    assert told == {
        "run_1": "the binding bind_reacts belongs to another tenant",
        "run_2": "the binding bind_watches does not subscribe to run.completed",
    }
    assert await invocations(runtime) == []


def test_a_projects_binding_wins_over_its_organisations() -> None:
    whole, own = bound("reacts", ORG, "whole"), bound("reacts", TENANT, "own")
    bindings = FixedBindings([own, whole, bound("reads", ORG)])
    assert bindings.by_id("own") is own
    assert bindings.by_id("other") is None
    assert {each.binding_id for each in bindings.of(TENANT)} == {"own", "bind_reads"}
    assert {each.binding_id for each in bindings.of(Scope("org_1", "proj_9"))} == {"whole", "bind_reads"}
    assert {each.binding_id for each in bindings.of(ORG)} == {"whole", "bind_reads"}
    assert bindings.of(Scope("org_2", "proj_1")) == []


FINISHED_RUNS = statement("finished", {None: "SELECT run_id FROM runs WHERE status = 'succeeded'"})
HOST = textwrap.dedent(
    """
    import asyncio, itertools, os, sys
    from pathlib import Path
    from plughost.clock import best_clock
    from plughost.vai.bindings.bindings import FixedBindings
    from plughost.vai.state.deliveries import Deliveries
    from plughost.vai.state.hooks import Hooks
    from plughost.vai.state.runs import RunRecord
    from plughost.vai.database.open_database import open_database
    from plughost.vai.state.leases import ProcessLease
    from plughost.vai.state.state import TenantState
    from tests.vai.invocations.conftest import Shelf, bound

    async def main():
        ground, first = Path(sys.argv[1]), int(sys.argv[2])
        told = os.open(ground / "told", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

        async def deliver(delivery):
            os.write(told, f"{delivery.event.subject.id}\\n".encode())
            return "succeeded", None

        clock = best_clock(asyncio.get_running_loop())
        database = open_database(str(ground / "state"), sys.argv[3] or None)
        state = TenantState(database)
        bindings = FixedBindings([bound("reacts")])
        lease = ProcessLease(database, f"host{first}", clock, 1.0)
        deliveries = Deliveries(database, lease, deliver, clock, bindings=bindings)
        hooks = Hooks(database, state.outbox, deliveries, bindings, Shelf(ground / "lab"), clock)
        hooks.wake()
        deliveries.start()
        for number in itertools.count(first):
            await state.runs.start(RunRecord(run_id=f"run_{number}", org_id="org_1", project_id="proj_1"))
            await state.runs.finish(f"run_{number}", "succeeded")
            print(number, flush=True)

    asyncio.run(main())
    """
)


@pytest.mark.clause("VAI-54")
async def test_every_run_that_was_finished_is_told_whenever_the_host_was_killed(
    runtime_of, ground: Path, runtime_url: str | None
) -> None:
    number = -1
    for lines in (1, 5, 14):
        command = [sys.executable, "-c", HOST, str(ground), str(number + 10), runtime_url or ""]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as host:
            assert host.stdout is not None
            for _ in range(lines):
                number = int(await asyncio.to_thread(host.stdout.readline))
            os.kill(host.pid, signal.SIGKILL)
            for line in host.stdout:  # what it did before it was gone
                number = int(line)
    runtime = await runtime_of(bound("reacts"))
    rows = (await runtime.database.read(FINISHED_RUNS())).rows
    finished = {row["run_id"] for row in rows}
    assert len(finished) >= 20
    told = await over(runtime, len(finished))
    assert {each.event.subject.id for each in told} == finished
    assert {each.status for each in told} == {"acked"}
