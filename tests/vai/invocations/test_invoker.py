"""Invocations through a real process: each ends once, is recorded, and leaves nothing."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from datetime import datetime
from pathlib import Path

import msgspec
import pytest

import plughost
from plughost.contracts.vai.request_bodies import CompactionTarget, EventSubject, HookEvent
from plughost.vai.invocations.invocation import Invocation
from plughost.vai.invocations.requests import MAX_INLINE, CompactionRequest, HookRequest
from plughost.vai.records.record import EventLogged, Finished, RecordedBinding, Started
from plughost.vai.state.chains import Block, Chain
from tests.support import until
from tests.vai.invocations.conftest import SECRET, Bench


def status(bench: Bench) -> list[tuple[str, str | None]]:
    return [(each.status, each.reason) for each in bench.kept.of(Finished)]


@pytest.mark.clause("VAI-40", "VAI-50", "VAI-94", "VAI-10")
async def test_a_tool_is_given_its_context_and_its_result_is_recorded_before_it_is_told(bench) -> None:
    lab = bench()
    outcome = await lab.tool(do="echo")
    assert (outcome.status, outcome.reason) == ("succeeded", None)
    told = outcome.result["structured_output"]
    context = told["context"]
    assert context["invocation_id"] == outcome.invocation_id
    assert context["org_id"] == "org_1"
    assert context["project_id"] == "proj_1"
    assert context["scratch_dir"] is None, "it asked for none"
    assert context["gateway"]["delegation_token"] is None, "it has no scopes"
    assert context["deadline_at"].startswith("20")
    assert told["secrets"] == {}
    (began,), (ended,) = lab.kept.of(Started), lab.kept.of(Finished)
    bound = msgspec.json.decode(began.bound, type=RecordedBinding)
    assert (bound.export_kind, bound.export_id, began.execution_id) == ("tool", "reads", "toolx_1")
    assert (ended.invocation_id, ended.status) == (outcome.invocation_id, "succeeded")


@pytest.mark.clause("VAI-50")
async def test_wrong_input_never_reaches_the_plugin(bench) -> None:
    lab = bench()
    outcome = await lab.tool(other=1)
    assert (outcome.status, outcome.reason) == ("failed", "invalid_input")
    assert "do" in outcome.message
    assert not len(lab.invoker.pool)
    assert status(lab) == [("failed", "invalid_input")]


@pytest.mark.clause("VAI-50", "VAI-39", "VAI-35")
@pytest.mark.parametrize(
    ("do", "reason"),
    [
        ("wrong output", "invalid_output"),
        ("no output", "invalid_output"),
        ("no result", "malformed"),
        ("protocol", "protocol_failure"),
        ("fail", "plugin:no"),
    ],
)
async def test_what_is_no_result_fails(bench, do: str, reason: str) -> None:
    lab = bench()
    outcome = await lab.tool(do=do)
    assert (outcome.status, outcome.result) == ("failed", None)
    assert reason in outcome.reason
    assert (await lab.tool(do="echo")).ok, "the process goes on"


@pytest.mark.clause("VAI-30", "VAI-39")
async def test_a_frame_with_two_lengths_is_none(bench) -> None:
    outcome = await bench().tool("writes", do="two lengths")
    assert (outcome.status, outcome.reason) == ("failed", "protocol.invalid_frame")


async def test_a_plugin_has_no_word_of_the_hosts_for_its_failure(bench) -> None:
    lab = bench()
    outcome = await lab.tool(do="fail", code="deadline_exceeded")
    assert (outcome.status, outcome.reason) == ("failed", "plugin:deadline_exceeded")
    assert lab.kept.of(Finished)[-1].reason == "plugin:deadline_exceeded"


async def test_what_to_do_about_a_failure_stands_in_its_outcome_and_its_record(bench) -> None:
    lab = bench()
    (lab.folder / "secrets/org_1/key").chmod(0o644)
    outcome = await lab.tool("writes", do="echo")
    assert outcome.hint == lab.kept.of(Finished)[-1].hint == f"chmod 600 {lab.folder}/secrets/org_1/key"


@pytest.mark.clause("VAI-94", "VAI-50")
async def test_a_record_holds_neither_wrong_values_nor_endless_words(bench) -> None:
    lab = bench()
    for given in ({"do": ["the customer's own words"]}, {"do": {"card": 4111_1111}}):
        outcome = await lab.tool(**given)
        assert (outcome.reason, outcome.message) == (
            "invalid_input", 'do: the value is not of type "string"',
        )  # fmt: skip
    long = await lab.tool(do="fail at length")
    assert (len(long.reason), len(long.message)) == (100, 4096)
    assert not [word for word in ("customer", "4111") if word in repr(lab.kept.entries)]
    assert len(repr(lab.kept.entries)) < 20_000


@pytest.mark.clause("VAI-50")
async def test_a_missing_output_counts_as_null(bench, ground: Path) -> None:
    """So it fits where the schema takes null, where there is none, and beside a failure."""
    lab = bench()
    missing = await lab.tool(do="no output")
    assert missing.message == "there is no structured_output, but schemas/output.json requires one"
    assert (await lab.tool(do="no output", more={"is_error": True})).ok
    assert (await lab.tool("writes", do="no output")).ok, "it promises none"
    (ground / "lab/schemas/output.json").write_text('{"type": ["object", "null"]}')
    assert (await bench().tool(do="no output")).ok


@pytest.mark.clause("VAI-34", "VAI-29")
async def test_events_go_to_the_caller_of_a_streaming_tool_and_to_the_records_in_any_case(bench) -> None:
    lab = bench()
    heard: list[int] = []
    await lab.tool(do="events", count=5, on_event=lambda event: heard.append(event["number"]))
    assert heard == [0, 1, 2, 3, 4]
    assert [each.event["number"] for each in lab.kept.of(EventLogged)] == heard
    await lab.tool("writes", do="events", count=2, on_event=lambda event: heard.append(event))
    assert len(heard) == 5, "it does not stream"
    assert len(lab.kept.of(EventLogged)) == 7


@pytest.mark.clause("VAI-34")
async def test_what_is_said_for_another_request_is_nobodys_result(bench) -> None:
    lab = bench()
    with lab.host.events() as events:
        outcome = await lab.tool(do="other request")
        assert outcome.result["structured_output"]["did"] == "other request"
        dropped = []
        while (event := events.take()) is not None:
            dropped += [event.what] if type(event).__name__ == "Dropped" else []
    assert len(dropped) == 2
    said = [
        (each.invocation_id, each.event["type"], each.event["message"]) for each in lab.kept.of(EventLogged)
    ]
    assert said == [(outcome.invocation_id, "protocol.refused", what) for what in dropped]
    assert type(lab.kept.entries[-1]) is Finished
    await lab.tool(do="echo")
    assert len(lab.kept.of(EventLogged)) == 2, "once"


@pytest.mark.clause("VAI-34")
async def test_what_a_process_said_last_is_told_of_its_last_invocation_and_not_of_its_successors(
    bench,
) -> None:
    """Which has a process of the same name, and may be another tenant's."""
    lab = bench(most_processes=1)
    first = await lab.tool("writes", do="stray afterwards")
    await until(lambda: lab.invoker._executor.unsolicited)
    assert (await lab.tool(binding=lab.binding("writes", "org_2"), do="echo")).ok
    [said] = lab.kept.of(EventLogged)
    assert (said.invocation_id, said.event["type"]) == (first.invocation_id, "protocol.refused")


@pytest.mark.clause("VAI-46")
async def test_bindings_that_share_a_process_are_bounded_each_by_its_own_limit(bench) -> None:
    lab = bench()
    one = lab.binding("writes", binding_id="one at a time", max_concurrency=1, filesystem="none")
    assert (await lab.tool(binding=one, do="echo")).ok
    both = lab.binding("writes", binding_id="two at a time", filesystem="none")
    tasks = [asyncio.create_task(lab.tool(binding=both, do="say and wait")) for _ in range(2)]
    await until(lambda: len(lab.kept.of(EventLogged)) == 2)
    assert len(lab.invoker.pool) == 1
    for id in lab.invoker.running:
        lab.invoker.cancel(id, "enough")
    await asyncio.gather(*tasks)


# Time


@pytest.mark.clause("VAI-46", "VAI-39", "VAI-36")
async def test_past_its_deadline_it_is_cancelled_and_the_caller_knows_at_once(bench) -> None:
    lab = bench()
    outcome = await lab.tool(do="wait", timeout_ms=60)
    assert (outcome.status, outcome.reason) == ("cancelled", "deadline_exceeded")
    assert (await lab.tool(do="echo")).ok


@pytest.mark.clause("VAI-46")
async def test_the_shortest_of_three_deadlines_counts(bench) -> None:
    lab = bench()
    short = lab.binding("reads", timeout_ms=60)
    assert (await lab.tool(binding=short, do="wait", timeout_ms=10_000)).reason == "deadline_exceeded"


@pytest.mark.clause("VAI-46")
async def test_a_caller_gets_no_more_time_than_its_binding_has(bench) -> None:
    lab = bench()
    binding = lab.binding("reads", timeout_ms=5000)
    for asked, seconds in ((None, 5), (3000, 3), (3_600_000, 5)):
        began = time.time()
        outcome = await lab.tool(binding=binding, do="echo", timeout_ms=asked)
        ends = datetime.fromisoformat(outcome.result["structured_output"]["context"]["deadline_at"])
        assert seconds - 1 < ends.timestamp() - began <= seconds + 1
    outcome = await lab.tool(binding=binding, do="wait", timeout_ms=-1)
    assert (outcome.status, outcome.reason) == ("cancelled", "deadline_exceeded")


@pytest.mark.parametrize("wrong", [float("nan"), 1.5, "2000"])
async def test_a_timeout_that_is_not_in_whole_milliseconds_is_refused(bench, wrong) -> None:
    with pytest.raises(plughost.InvalidSpec, match="timeout_ms is .+; expected whole milliseconds"):
        await bench().tool(do="echo", timeout_ms=wrong)


@pytest.mark.clause("VAI-46")
async def test_past_its_concurrency_a_call_waits_and_then_may_be_tried_again(bench) -> None:
    lab = bench()
    binding = lab.binding("reads", max_concurrency=1)
    first = asyncio.create_task(lab.tool(binding=binding, do="wait"))
    await until(lambda: lab.host.plugins and lab.invoker.running)
    late = await lab.tool(binding=binding, do="echo", timeout_ms=50)
    assert (late.status, late.reason) == ("retryable_failure", "no_room")
    second = asyncio.create_task(lab.tool(binding=binding, do="echo"))
    await until(lambda: len(lab.invoker.running) == 2)
    lab.invoker.cancel(lab.invoker.running[0], "enough")
    assert (await first).reason == "enough"
    assert (await second).ok


@pytest.mark.clause("VAI-36", "VAI-39")
async def test_a_caller_that_cancels_leaves_one_terminal_status(bench) -> None:
    lab = bench()
    task = asyncio.create_task(lab.tool(do="wait"))
    await until(lambda: lab.invoker.running)
    task.cancel("user left")
    with pytest.raises(asyncio.CancelledError):
        await task
    assert status(lab) == [("cancelled", "user left")]
    task = asyncio.create_task(lab.tool(do="wait"))
    await until(lambda: lab.invoker.running)
    assert lab.invoker.cancel(lab.invoker.running[0], "operator")
    assert (await task).reason == "operator"
    assert not lab.invoker.cancel("inv_unknown")


# Retries


@pytest.mark.clause("VAI-52")
async def test_a_crash_is_tried_again_only_where_effects_are_not_doubled(bench, tmp_path: Path) -> None:
    lab = bench()
    outcome = await lab.tool(do="crash once", mark=str(tmp_path / "mark"))
    assert (outcome.status, outcome.retries) == ("succeeded", 1)
    outcome = await lab.tool("writes", do="crash once", mark=str(tmp_path / "other"))
    assert (outcome.status, outcome.reason, outcome.retries) == ("failed", "crashed", 0)
    outcome = await lab.tool(do="crash")
    assert (outcome.status, outcome.reason, outcome.retries) == ("retryable_failure", "crashed", 2)


@pytest.mark.parametrize("export", ["reads", "writes"], ids=["shared process", "process with scratch folder"])
async def test_a_process_that_has_crashed_serves_nobody_any_more(bench, export: str) -> None:
    lab = bench()
    assert (await lab.tool(export, do="crash")).reason == "crashed"
    await until(lambda: not len(lab.invoker.pool))
    assert (await lab.tool(export, do="echo")).ok


@pytest.mark.clause("VAI-51", "VAI-52")
async def test_a_retried_call_keeps_its_id_and_its_result_is_in_the_chain_once(bench) -> None:
    lab = bench()
    await lab.chains.create(Chain(chain_id="ch_1", org_id="org_1", project_id="proj_1"))
    outcome = await lab.tool(do="retry", times=3, chain_id="ch_1", tool_execution_id="toolx_7")
    assert outcome.result["structured_output"]["seen"] == ["toolx_7"] * 3
    again = await lab.tool(do="echo", chain_id="ch_1", tool_execution_id="toolx_7")
    assert again.ok
    (block,) = await lab.chains.blocks("ch_1")
    assert block.kind == "tool_result"
    assert block.content[0]["result"]["structured_output"]["did"] == "retry"


# Classes and tenants


@pytest.mark.clause("VAI-11", "VAI-12", "VAI-14")
async def test_no_process_serves_two_tenants_unless_inline(bench) -> None:
    lab = bench()
    for export, shared in (("reads", True), ("writes", False)):
        seen = []
        for org in ("org_1", "org_2"):
            outcome = await lab.tool(binding=lab.binding(export, org), do="remember", what=org)
            seen = outcome.result["structured_output"]["seen"]
        assert seen == (["org_1", "org_2"] if shared else ["org_2"])
    assert len(lab.invoker.pool) == 3
    bound = [msgspec.json.decode(each.bound, type=RecordedBinding) for each in lab.kept.of(Started)]
    classes = {each.export_id: each.granted.execution_class for each in bound}
    assert classes == {"reads": "inline", "writes": "isolated"}


@pytest.mark.clause("VAI-12")
async def test_inline_of_a_stranger_is_refused_before_anything_runs(bench) -> None:
    lab = bench(trusted_inline=False)
    with pytest.raises(plughost.InvalidSpec, match="inline"):
        await lab.tool(do="echo")
    assert lab.kept.entries == []
    assert (await lab.tool(binding=lab.binding("reads", execution_class="worker"), do="echo")).ok


async def test_a_process_for_each_invocation(bench) -> None:
    lab = bench(reuse="invocation")
    seen = [
        (await lab.tool("writes", do="remember", what=n)).result["structured_output"]["seen"] for n in (1, 2)
    ]
    assert seen == [[1], [2]]
    await until(lambda: not len(lab.invoker.pool))


async def test_a_process_that_nobody_uses_is_ended_and_a_full_pool_makes_room(bench) -> None:
    lab = bench(idle=0.05)
    assert (await lab.tool(do="echo")).ok
    await until(lambda: not len(lab.invoker.pool))
    lab = bench(most_processes=1)
    for org in ("org_1", "org_2", "org_1"):
        assert (await lab.tool(binding=lab.binding("writes", org), do="echo")).ok
        assert len(lab.invoker.pool) == 1


@pytest.mark.clause("VAI-36")
async def test_who_does_not_stop_is_left_behind_and_the_next_call_does_not_wait_for_it(bench) -> None:
    lab = bench()
    outcome = await lab.tool(do="ignore cancel", timeout_ms=80)
    assert outcome.reason == "deadline_exceeded"
    assert (await lab.tool(do="echo", timeout_ms=4000)).ok, "the grace of the other is five seconds"


# Scratch, secrets, environment


@pytest.mark.clause("VAI-43", "VAI-93")
async def test_scratch_is_private_and_gone_afterwards(bench) -> None:
    lab = bench()
    seen = [(await lab.tool("writes", do="leave")).result["structured_output"]["found"] for _ in range(2)]
    assert all(len(found) == 1 for found in seen), "what the first left, the second does not see"
    (base,) = lab.folder.glob("plughost-scratch-*")
    assert [path for path in base.rglob("*") if path.is_file()] == []


@pytest.mark.clause("VAI-43", "VAI-03")
async def test_scratch_past_its_limit_ends_the_invocation(bench) -> None:
    lab = bench(limits=plughost.permissions.access.ResourceLimits(scratch=2 << 20))
    outcome = await lab.tool("writes", do="fill", mib=8)
    assert (outcome.status, outcome.reason) == ("failed", "budget_exceeded")
    assert "scratch" in outcome.message


@pytest.mark.clause("VAI-44", "VAI-90")
async def test_a_secret_reaches_the_plugin_and_nobody_else(bench) -> None:
    lab = bench()
    seen: list[object] = []
    with lab.host.events() as events:
        outcome = await lab.tool("writes", do="say", text="the key is KEY", on_event=seen.append)
        failed = await lab.tool("writes", do="fail")
        await until(lambda: lab.host.service("logs").recent(next(iter(lab.host.plugins))))
        while (event := events.take()) is not None:
            seen.append(event)
    assert outcome.result["structured_output"]["text"] == "the key is ***", "it had it"
    (plugin,) = lab.host.plugins.values()
    pid = plugin.inspect()["instances"][0]["pid"]
    places = [
        repr(outcome), repr(failed), repr(lab.kept.entries), repr(seen), repr(plugin.spec), repr(plugin.inspect()),
        repr(lab.host.service("logs").recent(plugin.name)),
        *(Path(f"/proc/{each}/cmdline").read_text() for each in _family(pid)),
        *(_environment(each) for each in _family(pid)),
    ]  # fmt: skip
    assert not [place for place in places if SECRET in place]
    assert any("the key is ***" in place for place in places)


def _environment(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/environ").read_text()
    except PermissionError:  # nobody but root can read it
        return ""


def _family(pid: int) -> list[int]:
    found = [pid]
    for each in found:
        for task in os.listdir(f"/proc/{each}/task"):
            found += map(int, Path(f"/proc/{each}/task/{task}/children").read_text().split())
    return found


@pytest.mark.clause("VAI-04")
async def test_the_environment_is_scrubbed(bench, monkeypatch) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "broad")
    lab = bench()
    told = (await lab.tool(do="environment")).result["structured_output"]["environment"]
    assert "AWS_SECRET_ACCESS_KEY" not in told
    assert {*told} <= {"PATH", "LANG", "LC_CTYPE", "PWD", "SHLVL", "_"}


@pytest.mark.clause("VAI-90")
@pytest.mark.parametrize("value", ["", "\n", "7", "é\n"])
async def test_a_secret_that_nobody_could_hide_is_not_given(bench, value: str) -> None:
    lab = bench()
    (lab.folder / "secrets/org_1/key").write_text(value)
    outcome = await lab.tool("writes", do="echo")
    assert (outcome.status, outcome.reason) == ("failed", "invalid_request")
    assert outcome.message == "the secret secret://org_1/key is too short to be redacted reliably"
    (lab.folder / "secrets/org_1/key").write_text("7x")
    outcome = await lab.tool("writes", do="say", text="it is KEY")
    assert outcome.result["structured_output"]["text"] == "it is ***"


@pytest.mark.clause("VAI-90")
async def test_no_part_of_a_long_secret_is_in_records_and_logs(bench) -> None:
    lab = bench()
    secret = "".join(f"{number:04x}" for number in range(0x1000, 0x1040))
    (lab.folder / "secrets/org_1/key").write_text(secret)
    heard = await lab.tool("writes", do="say", text="KEY" * 3000)
    name, *_ = lab.host.plugins
    await until(lambda: lab.host.service("logs").recent(name))
    outcome = await lab.tool("writes", do="crash")
    assert outcome.last_words
    told = [heard, outcome, *lab.kept.entries, lab.host.service("logs").recent(name)]
    pieces = {secret[at : at + 8] for at in range(len(secret) - 7)}
    assert not [piece for piece in pieces for each in told if piece in repr(each)]


async def test_a_secret_that_is_not_there_fails_the_invocation_and_says_which(bench) -> None:
    lab = bench()
    (lab.folder / "secrets/org_1/key").unlink()
    outcome = await lab.tool("writes", do="echo")
    assert (outcome.status, outcome.reason) == ("failed", "invalid_request")
    assert "secret://org_1/key" in outcome.message


# The other kinds


@pytest.mark.clause("VAI-53", "VAI-38")
@pytest.mark.parametrize(
    ("answer", "status"),
    [("ack", "succeeded"), ("failed", "failed"), ("retryable_failure", "retryable_failure")],
)
async def test_a_hook_acknowledges_or_not(bench, answer: str, status: str) -> None:
    lab = bench()
    event = HookEvent(
        type="run.completed",
        occurred_at="2026-03-12T19:00:00Z",
        subject=EventSubject("run", "run_1"),
        summary={"answer": answer},
    )
    work = HookRequest(delivery_id="del_1", attempt=2, event=event)
    assert (await lab.invoker.invoke(Invocation(binding=lab.binding("reacts"), work=work))).status == status


def compaction(blocks: int, **other: object) -> CompactionRequest:
    return CompactionRequest(
        compaction_id="cmp_1",
        chain_id="ch_1",
        blocks=[{"kind": "input", "content": [{"type": "text", "text": "x" * 1000}]}] * blocks,
        pinned_items=[{"type": "text", "text": "keep me"}],
        token_estimate=blocks * 250,
        target=CompactionTarget(32000, "gpt-5.4"),
        **other,
    )


@pytest.mark.clause("VAI-55", "VAI-56", "VAI-57", "VAI-29")
@pytest.mark.parametrize(("blocks", "how"), [(3, "inline"), (MAX_INLINE // 1000 + 10, "artifact")])
async def test_a_compaction_makes_a_derived_chain(bench, blocks: int, how: str) -> None:
    lab = bench()
    await lab.chains.create(Chain(chain_id="ch_1", org_id="org_1", project_id="proj_1"), [Block("input", [])])
    outcome = await lab.invoker.invoke(Invocation(binding=lab.binding("shortens"), work=compaction(blocks)))
    assert outcome.ok, outcome
    chain = await lab.chains.chain(outcome.result["derived_chain_id"])
    assert (chain.source_chain_id, chain.compaction_id) == ("ch_1", "cmp_1")
    seeds = await lab.chains.blocks(chain.chain_id)
    assert [seed.kind for seed in seeds] == ["pinned", "input"], (
        "it cannot keep pinned items, so the host does"
    )
    assert seeds[1].content[0]["text"] == f"{how}: {blocks} blocks"
    assert await lab.chains.blocks("ch_1") == [Block("input", [])]


@pytest.mark.clause("VAI-56")
async def test_a_compaction_of_another_tenants_chain_makes_none(bench) -> None:
    lab = bench()
    await lab.chains.create(Chain(chain_id="ch_1", org_id="org_2", project_id="proj_1"), [Block("input", [])])
    outcome = await lab.invoker.invoke(Invocation(binding=lab.binding("shortens"), work=compaction(1)))
    assert (outcome.status, outcome.reason) == ("failed", "invalid_request")
    assert await lab.chains.derived("cmp_1") is None
    outcome = await lab.tool(do="echo", chain_id="ch_1")
    assert (outcome.status, outcome.message) == ("failed", "there is no chain ch_1")
    assert await lab.chains.blocks("ch_1") == [Block("input", [])]


@pytest.mark.clause("VAI-29")
async def test_a_pinned_block_is_kept_by_the_host_as_it_is(bench) -> None:
    lab = bench()
    await lab.chains.create(Chain(chain_id="ch_1", org_id="org_1", project_id="proj_1"))
    block = {"kind": "task", "content": [{"type": "text", "text": "mend it"}], "id": "b3", "status": "open"}
    work = msgspec.structs.replace(
        compaction(1), blocks=[block], pinned_items=["b3", {"block_id": "b3"}, "said"]
    )
    outcome = await lab.invoker.invoke(Invocation(binding=lab.binding("shortens"), work=work))
    seeds = await lab.chains.blocks(outcome.result["derived_chain_id"])
    assert [seed.as_json for seed in seeds[:-1]] == [
        block, {"kind": "pinned", "content": [{"type": "text", "text": "said"}]},
    ]  # fmt: skip


@pytest.mark.clause("VAI-57", "VAI-40")
async def test_a_large_projection_needs_a_scratch_folder_before_anything_is_launched(bench) -> None:
    lab = bench()
    binding = lab.binding("shortens_inline")
    outcome = await lab.invoker.invoke(Invocation(binding=binding, work=compaction(MAX_INLINE // 1000 + 10)))
    assert (outcome.status, outcome.reason) == ("failed", "invalid_request")
    assert not len(lab.invoker.pool)


async def test_work_of_another_kind_is_refused(bench) -> None:
    lab = bench()
    outcome = await lab.invoker.invoke(Invocation(binding=lab.binding("reads"), work=compaction(1)))
    assert (outcome.status, outcome.reason) == ("failed", "invalid_request")
    with pytest.raises(plughost.InvalidSpec, match="no export 'other'"):
        await lab.tool("other", do="echo")


async def test_a_closed_invoker_takes_nothing_and_cancels_what_runs(bench) -> None:
    lab = bench()
    task = asyncio.create_task(lab.tool(do="wait"))
    await until(lambda: lab.invoker.running)
    await lab.invoker.close()
    assert (await task).reason == "host_closed"
    with pytest.raises(plughost.PluginError, match="closed"):
        await lab.tool(do="echo")


@pytest.mark.clause("VAI-13", "VAI-11")
async def test_workers_run_in_the_background_a_few_at_a_time_and_hold_nobody_else_up(bench) -> None:
    lab = bench(workers=2)
    slow = [
        asyncio.create_task(
            lab.tool(binding=lab.binding("reads", f"org_{n}", execution_class="worker"), do="wait")
        )
        for n in range(5)
    ]
    # Two workers, and the one that is reserved for tenants without any.
    await until(lambda: len(lab.invoker.running) == 5 and len(lab.invoker.pool) == 3)
    assert (await lab.tool(do="echo", timeout_ms=15_000)).ok, "an inline call does not wait for them"
    assert len(lab.invoker.pool) == 4
    for running in lab.invoker.running:
        lab.invoker.cancel(running, "enough")
    assert {outcome.reason for outcome in await asyncio.gather(*slow)} == {"enough"}


@pytest.mark.clause("VAI-03")
async def test_memory_past_its_limit_fails_the_invocation_and_names_it(bench) -> None:
    lab = bench(sandbox="strict", limits=plughost.permissions.access.ResourceLimits(memory=64 << 20))
    outcome = await lab.tool(do="grow", mib=200)
    assert (outcome.status, outcome.reason) in {
        ("failed", "budget_exceeded"),
        ("failed", "plugin:no_memory"),
    }, outcome
    assert "memory" in outcome.message.lower()


@pytest.mark.timeout(20)
async def test_closing_does_not_wait_for_what_a_caller_does_next(bench) -> None:
    lab = bench()
    outcomes = []

    async def caller() -> None:
        outcomes.append(await lab.tool(do="wait"))
        await asyncio.Event().wait()

    task = asyncio.create_task(caller())
    await until(lambda: lab.invoker.running)
    await lab.invoker.close()
    await until(lambda: outcomes)
    assert outcomes[0].reason == "host_closed"
    task.cancel()


@pytest.mark.clause("VAI-39", "VAI-32")
@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        ('"version": "1.0.0"', "identity_mismatch"),
        ('"type": "hello"', "handshake_failed"),
    ],
)
async def test_who_says_no_good_hello_fails_at_once(bench, ground: Path, wrong: str, reason: str) -> None:
    program = ground / "lab/bin/plugin"
    assert wrong in program.read_text()
    program.write_text(program.read_text().replace(wrong, wrong[:-2] + '9"'))
    lab = bench()
    both = await asyncio.gather(*(lab.tool(do="echo") for _ in range(2)))
    assert {(each.status, each.reason) for each in both} == {("failed", reason)}
    await until(lambda: not len(lab.invoker.pool))


@pytest.mark.clause("VAI-46")
@pytest.mark.parametrize("timeout_ms", [0, -5])
async def test_no_time_at_all_is_not_all_the_time(bench, timeout_ms: int) -> None:
    outcome = await bench().tool(do="wait", timeout_ms=timeout_ms)
    assert (outcome.status, outcome.reason) == ("cancelled", "deadline_exceeded")


async def test_a_process_that_ended_while_it_was_idle_is_replaced_at_once(bench) -> None:
    lab = bench()
    assert (await lab.tool(do="echo")).ok
    (plugin,) = lab.host.plugins.values()
    os.kill(plugin.inspect()["instances"][0]["pid"], signal.SIGKILL)
    await until(lambda: plugin.state == "Quarantined")
    outcome = await lab.tool(do="echo", timeout_ms=20_000)
    assert outcome.ok
    assert outcome.retries == 0
