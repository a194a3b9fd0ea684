"""What exports answer, as values; and bodies, which do not show their secrets."""

from __future__ import annotations

import json

import msgspec
import pytest

import plughost
from plughost.contracts.vai.request_bodies import (
    Artifact,
    CompactionSource,
    CompactionTarget,
    CompactorBody,
    GatewayAccess,
    HarnessBody,
    HarnessPolicy,
    HarnessTarget,
    Inline,
    Trigger,
)
from plughost.contracts.vai.results import CompactorResult, HarnessResult, ToolResult, outcome
from tests.support.vai import CONTEXT, tool

COMPACTED = {
    "seed_blocks": [
        {"kind": "system", "content": [{"type": "text", "text": "You are a coding agent."}]},
        {"kind": "input", "content": [{"type": "text", "text": "Summary of prior work.", "cited": [1]}]},
    ],
    "summary": {"text": "Auth redirect fix in progress. Tests pending."},
    "diagnostics": {"input_tokens_estimate": 182000, "output_tokens_estimate": 5400},
}
RAN = {
    "checkpoint": {"kind": "checkpoint", "data": {"cursor": 12}},
    "summary": {"text": "Gathered context, planned, and executed fix."},
    "artifacts": [],
}


def raw(value) -> msgspec.Raw:
    return msgspec.Raw(json.dumps(value).encode())


@pytest.mark.clause("VAI-38", "VAI-48", "VAI-50", "VAI-55", "VAI-58")
def test_the_answers_of_the_contract_s_text_are_understood():
    found = {
        "content": [{"type": "text", "text": "Found 3 issues."}],
        "structured_output": {"issues": [{"key": "ENG-123"}]},
        "is_error": False,
        "retryable": False,
    }
    told = outcome("tool.invoke", raw({"status": "succeeded", "result": found}))
    assert (told.status, told.result) == ("succeeded", ToolResult(**found))
    compacted = outcome("compactor.compact", raw({"status": "succeeded", "result": COMPACTED})).result
    assert isinstance(compacted, CompactorResult)
    assert compacted.seed_blocks[1]["content"][0]["cited"] == [1]
    assert compacted.diagnostics["output_tokens_estimate"] == 5400
    ran = outcome("harness.run", raw({"status": "succeeded", "result": RAN})).result
    assert isinstance(ran, HarnessResult)
    assert (ran.checkpoint.data, ran.summary.text[:8]) == ({"cursor": 12}, "Gathered")


@pytest.mark.clause("VAI-38")
@pytest.mark.parametrize("op", ["tool.invoke", "compactor.compact", "harness.run", "hook.handle"])
@pytest.mark.parametrize("status", ["failed", "cancelled", "retryable_failure"])
def test_without_success_there_need_be_no_result(op, status):
    told = outcome(op, raw({"status": status, "error": {"code": "x", "message": "y"}}))
    assert (told.status, told.result, told.problem.message) == (status, None, "y")


@pytest.mark.clause("VAI-38", "VAI-48")
@pytest.mark.parametrize(
    ("op", "body", "why"),
    [
        ("tool.invoke", {}, "missing required field `status`"),
        ("tool.invoke", {"status": "ack"}, "Invalid enum value 'ack'"),
        ("tool.invoke", {"status": "succeeded"}, "`result` is missing; expected content, structured_output"),
        ("tool.invoke", {"status": "succeeded", "result": None}, "`result` is missing"),
        ("tool.invoke", {"status": "succeeded", "result": {"content": "x"}}, "Expected `array`, got `str`"),
        (
            "tool.invoke",
            {"status": "succeeded", "result": {"content": [{}]}},
            r"Expected a `type` in content\[0\]",
        ),
        (
            "tool.invoke",
            {"status": "succeeded", "result": {"content": [{"type": "text"}]}},
            "Expected a `text`",
        ),
        ("tool.invoke", {"status": "succeeded", "result": {"content": [], "is_error": 1}}, "Expected `bool`"),
        (
            "compactor.compact",
            {"status": "succeeded", "result": {"seed_blocks": []}},
            "missing required field",
        ),
        (
            "compactor.compact",
            {"status": "succeeded", "result": {**COMPACTED, "diagnostics": {"input_tokens_estimate": -1}}},
            "Expected `int` >= 0",
        ),
        (
            "harness.run",
            {"status": "succeeded", "result": {"checkpoint": {}}},
            "missing required field `kind`",
        ),
        ("hook.handle", {"status": "nack"}, "Invalid enum value 'nack'"),
    ],
)
def test_a_result_of_another_shape_is_malformed_and_says_what_was_expected(op, body, why):
    with pytest.raises(plughost.Malformed, match=f"its result of {op} is wrong: .*{why}"):
        outcome(op, raw(body))


@pytest.mark.clause("VAI-40", "VAI-55", "VAI-58")
def test_bodies_are_those_of_the_contract_s_text():
    common = {"export_id": "x", "context": CONTEXT}
    compact = CompactorBody(
        **common,
        compaction_id="cmp_123",
        source=CompactionSource("ch_123", Inline(blocks=[], token_estimate=182000)),
        target=CompactionTarget(32000, "gpt-5.4"),
    )
    told = msgspec.to_builtins(compact)
    assert told["source"]["projection"] == {
        "transport": "inline", "blocks": [], "pinned_items": [], "token_estimate": 182000,
    }  # fmt: skip
    assert told["policy"] == {"retain_system": True, "retain_open_tasks": True}
    large = Artifact(path="/scratch/p.json", sha256="0" * 64, bytes=9, token_estimate=1)
    assert msgspec.to_builtins(large)["transport"] == "artifact"
    run = HarnessBody(
        **common,
        mode="start",
        target=HarnessTarget(session_id="sess_123", chain_id="ch_123", execution_id="exec_123"),
        trigger=Trigger("user_request", [{"type": "text", "text": "Fix it"}]),
        policy=HarnessPolicy(max_depth=4, max_child_runs=12, allow_compaction=True),
    )
    assert set(msgspec.to_builtins(run)) == {
        "export_id", "context", "config", "secrets", "mode", "target", "trigger", "policy",
    }  # fmt: skip


@pytest.mark.clause("VAI-44", "VAI-90")
def test_no_body_shows_its_secrets():
    gateway = GatewayAccess(base_url="https://g", delegation_token="vai_dlg_1", scopes=["chains:read"])
    body = msgspec.structs.replace(
        tool(), context=msgspec.structs.replace(CONTEXT, gateway=gateway), secrets={"key": "s3cret"}
    )
    assert "vai_dlg_1" not in repr(body)
    assert "s3cret" not in repr(body)
    assert msgspec.to_builtins(body)["context"]["gateway"]["delegation_token"] == "vai_dlg_1"
