"""Harnesses in their sandbox: they act through the gateway alone, within their policy, and leave nothing behind."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta
from typing import Any

import msgspec
import pytest

from plughost.contracts.vai.request_bodies import HarnessPolicy, HarnessTarget, Trigger
from plughost.vai.bindings.binding import Binding, Scope
from plughost.vai.invocations.invocation import Invocation, Related
from plughost.vai.invocations.outcome import Outcome
from plughost.vai.invocations.requests import HarnessRequest
from plughost.vai.runtime import VaiRuntime
from plughost.vai.state.chains import Block, Chain
from plughost.vai.state.sessions import TenantSession
from tests.support import until
from tests.vai.invocations.conftest import TENANT, bound, over, running_runs

pytestmark = pytest.mark.usefixtures("strict")
TEXT = [{"type": "text", "text": "hello"}]
FREE = HarnessPolicy(max_depth=4, max_child_runs=12, allow_compaction=True)


def ask(method: str, path: str, document: Any = None) -> dict[str, Any]:
    return {"method": method, "path": path, **({} if document is None else {"json": document})}


async def with_a_chain(runtime: VaiRuntime, scope: Scope = TENANT) -> None:
    where = {"org_id": scope.org_id, "project_id": scope.project_id}
    await runtime.state.sessions.create(TenantSession(session_id="sess_1", title="a bug", **where))
    chain = Chain(chain_id="ch_1", session_id="sess_1", **where)
    await runtime.state.chains.create(chain, [Block("system", TEXT)])


def wanted(*steps: dict[str, Any], binding: Binding | None = None, **other: Any) -> Invocation:
    return Invocation(
        binding=binding or bound("triage"),
        work=HarnessRequest(
            target=HarnessTarget(session_id="sess_1", chain_id="ch_1", execution_id="exec_1"),
            trigger=Trigger("user_request", list(steps)),
            policy=other.pop("policy", FREE),
            checkpoint=other.pop("checkpoint", msgspec.UNSET),
        ),
        related=Related(session_id="sess_1", chain_id="ch_1", run_id="run_0", trace_id="tr_0"),
        **other,
    )


def told(outcome: Outcome) -> list[Any]:
    assert outcome.ok, outcome
    artifacts: list[Any] = outcome.result["artifacts"]
    return artifacts


async def record(runtime: VaiRuntime, invocation_id: str) -> dict[str, Any]:
    await runtime.journal.flush()
    found = await runtime.records.get(invocation_id)
    assert found is not None
    return found


async def refusals(runtime: VaiRuntime, outcome: Outcome) -> list[str]:
    events = (await record(runtime, outcome.invocation_id))["events"]
    return [each["event"]["code"] for each in events if each["event"]["type"] == "gateway.refused"]


@pytest.mark.clause("VAI-58", "VAI-59", "VAI-45", "VAI-41", "VAI-14")
async def test_a_harness_acts_through_the_gateway_and_reaches_nothing_else(runtime_of) -> None:
    runtime = await runtime_of(bound("triage"), bound("reacts"), sandbox="strict")
    await with_a_chain(runtime)
    server = await asyncio.start_server(lambda reader, writer: writer.close(), "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    steps = [
        ask("GET", "/v1/sessions/sess_1"),
        ask("GET", "/v1/chains/ch_1"),
        ask("POST", "/v1/chains/ch_1/blocks", {"blocks": [{"kind": "output", "content": TEXT}]}),
        ask("POST", "/v1/runs", {"task": "look", "parent_run_id": "run_0"}),
        ask("PATCH", "/v1/runs/{run_id}", {"status": "succeeded", "output": "seen"}),
        {"do": "connect", "host": "127.0.0.1", "port": port},
        {"do": "connect", "host": "example.com", "port": 443},
        {"do": "connect", "host": "gateway.vai.internal", "port": 8080},
    ]
    outcome = await runtime.invoke(wanted(*steps))
    server.close()
    session, chain, added, begun, finished, *connections = told(outcome)
    assert (session[0], session[1]["title"], session[1]["chain_ids"]) == (200, "a bug", ["ch_1"])
    assert [block["kind"] for block in chain[1]["blocks"]] == ["system"]
    assert chain[1]["token_estimate"] == 8
    assert added == [201, {"chain_id": "ch_1", "last": 2}]
    assert (begun[1]["status"], begun[1]["parent_run_id"]) == ("running", "run_0")
    assert (finished[1]["status"], finished[1]["output"]) == ("succeeded", "seen")
    assert "connected" not in connections
    assert [block.kind for block in await runtime.state.chains.blocks("ch_1")] == ["system", "output"]
    assert (await record(runtime, outcome.invocation_id))["granted"]["network"] == "none"
    (delivery,) = await over(runtime, 1)
    assert (delivery.status, delivery.event.subject.id) == ("acked", begun[1]["run_id"])
    assert delivery.event.summary == {"task": "look", "output": "seen", "status": "succeeded"}


@pytest.mark.clause("VAI-59", "VAI-25")
async def test_a_checkpoint_is_handed_back(runtime_of) -> None:
    runtime = await runtime_of(bound("triage"), sandbox="strict")
    await with_a_chain(runtime)
    first = await runtime.invoke(wanted(ask("GET", "/v1/chains/ch_1"), {"do": "body"}))
    assert (told(first)[1]["mode"], told(first)[1]["checkpoint"]) == ("start", None)
    checkpoint = first.result["checkpoint"]
    again = await runtime.invoke(wanted({"do": "body"}, checkpoint=checkpoint))
    assert (told(again)[0]["mode"], told(again)[0]["checkpoint"]) == ("resume", checkpoint)
    assert again.result["checkpoint"]["data"]["cursor"] == 3


@pytest.mark.clause("VAI-59")
async def test_child_runs_are_counted_and_nesting_ends(runtime_of) -> None:
    runtime = await runtime_of(bound("triage"), sandbox="strict")
    await with_a_chain(runtime)
    policy = HarnessPolicy(max_depth=2, max_child_runs=2, allow_compaction=True)
    deepest = [{"do": "body"}, ask("POST", "/v1/runs", {})]
    child = [
        ask("POST", "/v1/runs", {"export": "triage", "input": deepest}),
        ask("GET", "/v1/runs/{run_id}?wait_ms=20000"),
    ]
    outcome = await runtime.invoke(
        wanted(
            ask("POST", "/v1/runs", {"export": "triage", "input": child}),
            ask("GET", "/v1/runs/{run_id}?wait_ms=20000"),
            ask("POST", "/v1/runs", {"task": "second"}),
            ask("POST", "/v1/runs", {"task": "third"}),
            policy=policy,
        )
    )
    _, (_, run), (second, _), (third, problem) = told(outcome)
    assert (second, third, problem["code"]) == (201, 403, "too_many_child_runs")
    assert (run["status"], run["output"]) == ("succeeded", "done")
    _, (_, inner) = run["result"]["artifacts"]
    body, (status, problem) = inner["result"]["artifacts"]
    assert (status, problem["code"]) == (403, "too_deep")
    assert body["policy"] == {"max_depth": 0, "max_child_runs": 2, "allow_compaction": True}
    assert body["trigger"]["type"] == "child_run"
    assert await refusals(runtime, outcome) == ["too_many_child_runs"]
    assert {each["trace_id"] for each in await runtime.records.latest(10)} == {"tr_0"}


@pytest.mark.clause("VAI-58", "VAI-59")
async def test_a_harness_cancels_what_it_began(runtime_of) -> None:
    runtime = await runtime_of(bound("triage"), sandbox="strict")
    await with_a_chain(runtime)
    cancel = ask("PATCH", "/v1/runs/{run_id}", {"status": "cancelled"})
    steps = [
        ask("POST", "/v1/runs", {"export": "triage", "input": [{"do": "wait"}]}),
        ask("PATCH", "/v1/runs/{run_id}", {"status": "succeeded"}),
        cancel,
        cancel,
    ]
    _, (forged, problem), (status, run), (again, _) = told(await runtime.invoke(wanted(*steps)))
    assert (forged, problem["code"]) == (403, "not_its_own"), "a child says itself whether it has succeeded"
    assert (status, run["status"], run["reason"]) == (200, "cancelled", "parent_cancelled")
    assert again == 409


@pytest.mark.clause("VAI-46", "VAI-59")
async def test_a_childs_time_is_its_parents_at_most(runtime_of) -> None:
    runtime = await runtime_of(bound("triage"), sandbox="strict")
    await with_a_chain(runtime)
    look = ask("GET", "/v1/runs/{run_id}?wait_ms=20000")
    steps = [
        {"do": "body"},
        ask("POST", "/v1/runs", {"export": "triage", "input": [{"do": "body"}], "timeout_ms": 1_000_000}),
        look,
        ask("POST", "/v1/runs", {"export": "triage", "input": [{"do": "wait"}], "timeout_ms": 50}),
        look,
    ]
    body, _, (_, done), _, (_, late) = told(await runtime.invoke(wanted(*steps, timeout_ms=60_000)))
    own, childs = (
        datetime.fromisoformat(each["deadline_at"]) for each in (body, done["result"]["artifacts"][0])
    )
    assert childs <= own + timedelta(seconds=2)
    assert (late["status"], late["reason"]) == ("cancelled", "deadline_exceeded")


@pytest.mark.clause("VAI-47", "VAI-55", "VAI-56")
async def test_compactions_make_a_chain_unless_the_policy_forbids_them(runtime_of) -> None:
    runtime = await runtime_of(bound("triage"), bound("shortens"), sandbox="strict")
    await with_a_chain(runtime)
    target = {"max_input_tokens": 1000, "target_model": "m"}
    compact = ask("POST", "/v1/compactions", {"chain_id": "ch_1", "export": "shortens", "target": target})
    forbidden = await runtime.invoke(
        wanted(compact, policy=msgspec.structs.replace(FREE, allow_compaction=False))
    )
    ((status, problem),) = told(forbidden)
    assert (status, problem["code"]) == (403, "compaction_not_allowed")
    assert await refusals(runtime, forbidden) == ["compaction_not_allowed"]
    allowed = await runtime.invoke(wanted(compact, ask("GET", "/v1/chains/{chain_id}")))
    (status, made), (_, chain) = told(allowed)
    assert status == 201, made
    assert (chain["source_chain_id"], chain["compaction_id"]) == ("ch_1", made["compaction_id"])
    assert chain["blocks"][0]["content"][0]["text"] == "inline: 1 blocks"
    assert [block.kind for block in await runtime.state.chains.blocks("ch_1")] == ["system"]


@pytest.mark.clause("VAI-59", "VAI-41", "VAI-39")
@pytest.mark.parametrize("end", ["cancelled", "done"])
async def test_what_a_harness_began_ends_with_it(runtime_of, end: str) -> None:
    runtime = await runtime_of(bound("triage"), sandbox="strict")
    await with_a_chain(runtime)
    nested = [ask("POST", "/v1/runs", {"export": "triage", "input": [{"do": "wait"}]}), {"do": "wait"}]
    steps = [
        {"do": "keep"},
        ask("POST", "/v1/runs", {"task": "of its own"}),
        ask("POST", "/v1/runs", {"export": "triage", "input": nested if end == "cancelled" else []}),
        {"do": "wait"} if end == "cancelled" else ask("GET", "/v1/runs/{run_id}?wait_ms=20000"),
    ]
    heard: list[dict[str, Any]] = []
    task = asyncio.create_task(runtime.invoke(wanted(*steps), heard.append))
    if end == "cancelled":
        await until(lambda: heard and len(runtime.invoker.running) == 3)
        assert len(runtime.gateway.guests) == 3
        runtime.cancel(runtime.invoker.running[0], "user left")
    outcome = await task
    assert outcome.status == ("cancelled" if end == "cancelled" else "succeeded")
    await until(lambda: not runtime.invoker.running and not runtime.gateway._leaving)
    assert not runtime.gateway.guests
    assert await running_runs(runtime) == []
    began = outcome.result["artifacts"] if outcome.ok else heard[0]["done"]
    (_, own), (_, child) = began[:2]
    for run_id in (own["run_id"], child["run_id"]):
        run = await runtime.state.runs.run(run_id)
        if end == "cancelled" or run_id == own["run_id"]:
            assert (run.status, run.reason) == ("cancelled", "parent_ended")
    if end == "done":  # a cancelled one's process is not used again
        late = await runtime.invoke(wanted({"do": "use kept", "method": "GET", "path": "/v1/chains/ch_1"}))
        ((status, problem),) = told(late)
        assert (status, problem["code"]) == (401, "unauthenticated"), "its token is no good any more"
        assert await refusals(runtime, outcome) == ["unauthenticated"], "and that it was tried is recorded"
