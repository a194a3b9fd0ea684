"""Results of exports: checked against the manifest's schemas, and persisted as artifacts and chain blocks."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec

from plughost._util.text import TruncatedText
from plughost.contracts.vai.results import outcome as read_outcome
from plughost.contracts.vai.results import plain
from plughost.errors import HostFailed, PluginError
from plughost.vai.database.errors import DatabaseUnavailable
from plughost.vai.invocations.artifacts import collect_artifacts
from plughost.vai.invocations.execution import Execution
from plughost.vai.invocations.outcome import NO_REASON_GIVEN, PLUGIN_REASON_PREFIX, Outcome, verdict
from plughost.vai.invocations.requests import CompactionRequest, HarnessRequest, ToolRequest
from plughost.vai.state.chains import Block, ChainSink

MAX_REASON, MAX_MESSAGE = 100, 4096
"""Characters of a plugin's own error code and message in a record."""


class ResultHandler:
    """Evaluates the answer of an export, and persists what outlives its invocation."""

    def __init__(self, chains: ChainSink | None, artifacts: str | None = None) -> None:
        self._chains = chains
        self._artifacts = artifacts

    def evaluate(self, execution: Execution, answer: msgspec.Raw) -> Outcome | None:
        """The outcome that a small answer means. Malformed when the answer has not the form of its kind.

        None when the answer does not fit its schema and listing the problems here takes too long.
        """
        reported = read_outcome(execution.prepared.op, answer)
        result: Any = (
            None if reported.result is None else execution.redactor.redact_json(plain(reported.result))
        )
        if reported.status != "succeeded":
            problem = reported.problem
            if problem is None:
                return unsuccessful(execution, reported.status, TruncatedText(""), None, result)
            return unsuccessful(
                execution,
                reported.status,
                TruncatedText(problem.code),
                TruncatedText(problem.message),
                result,
            )
        schema = execution.prepared.output
        if schema is None or result["is_error"] or schema.fits(output := result["structured_output"]):
            return Outcome(
                invocation_id=execution.id, status="succeeded", payload=result, retries=execution.retries
            )
        if len(memoryview(answer)) > schema.explained_at_once:
            return None
        return wrong_output(execution, schema.problems(output), missing=output is None)

    def must_persist(self, execution: Execution, outcome: Outcome) -> bool:
        """Whether the result has something to persist: artifacts of a harness, or blocks for a chain."""
        if outcome.status != "succeeded":
            return False
        work = execution.invocation.work
        if isinstance(work, HarnessRequest):
            return bool(outcome.result["artifacts"])
        if self._chains is None:
            return False
        return isinstance(work, CompactionRequest) or execution.invocation.related.chain_id is not None

    async def persist(self, execution: Execution, outcome: Outcome, scratch: str | None = None) -> Outcome:
        """Stores artifacts and chain blocks. Returns the outcome with digests and chain ids instead of
        paths."""
        result = outcome.payload if isinstance(execution.invocation.work, ToolRequest) else outcome.result
        if isinstance(execution.invocation.work, HarnessRequest) and result["artifacts"]:
            files = await asyncio.to_thread(
                collect_artifacts, result["artifacts"], scratch, self._artifacts, execution.redactor
            )
            result = {**result, "artifacts": files}
        if self._chains is not None:
            try:
                result = await self._write_to_chain(self._chains, execution, result)
            except (OSError, DatabaseUnavailable) as error:
                why = error.message if isinstance(error, DatabaseUnavailable) else error
                raise HostFailed(f"its result could not be written into a chain: {why}") from error
        return msgspec.structs.replace(outcome, payload=result)

    async def _write_to_chain(self, chains: ChainSink, execution: Execution, result: Any) -> Any:
        """Writes the result of a tool into its chain, or a compaction into a new chain."""
        work, chain_id = execution.invocation.work, execution.invocation.related.chain_id
        if isinstance(work, ToolRequest) and chain_id is not None:
            await chains.insert_tool_result(execution.scope, chain_id, work.tool_execution_id, result)
        elif isinstance(work, CompactionRequest):
            seeds = [Block.from_json(seed) for seed in result["seed_blocks"]]
            compactor = execution.prepared.export.compactor
            if compactor is not None and not compactor.supports_pinned_items:
                seeds = [*_missing_pins(work, seeds), *seeds]
            derived = await chains.derive(execution.scope, work.chain_id, work.compaction_id, seeds)
            result = {**result, "derived_chain_id": derived}
        return result


def _missing_pins(work: CompactionRequest, seeds: list[Block]) -> list[Block]:
    """The pinned items that are missing in the seed blocks: blocks of the chain by id, others as new
    blocks."""
    known = {block["id"]: block for block in work.blocks if _has_id(block)}
    present = {seed.more["id"] for seed in seeds if _has_id(seed.as_json)}
    pins = []
    for item in work.pinned_items:
        name = item.get("block_id", item.get("id")) if isinstance(item, dict) else item
        if isinstance(name, str) and name in known:
            pins += [] if name in present else [Block.from_json(known[name])]
            present.add(name)
        else:
            pins.append(Block("pinned", [{"type": "text", "text": item} if isinstance(item, str) else item]))
    return pins


def _has_id(block: Any) -> bool:
    named = isinstance(block, dict) and isinstance(block.get("id"), str)
    return named and {"kind", "content"} <= block.keys()


def failure(execution: Execution, error: PluginError) -> tuple[Outcome, bool]:
    """The outcome that an error means for an invocation, and whether to retry."""
    decision = verdict(error, retryable=execution.prepared.retryable)
    why = decision.message or error.message
    shared = execution.process is not None and execution.process.shared
    last_words = "" if shared else error.stderr_tail
    return execution.make_outcome(
        decision.status, decision.reason, why, last_words, error.hint
    ), decision.retry


def unsuccessful(
    execution: Execution, status: str, code: TruncatedText, message: TruncatedText | None, payload: Any
) -> Outcome:
    """The outcome of a failure that the plugin itself reported. Secrets are redacted before texts are
    truncated."""
    code_text = execution.redactor.redact_truncated(code)
    reason = f"{PLUGIN_REASON_PREFIX}{code_text}"[:MAX_REASON] if code_text else NO_REASON_GIVEN
    why = None if message is None else execution.redactor.redact_truncated(message)[:MAX_MESSAGE]
    return msgspec.structs.replace(execution.make_outcome(status, reason, why), payload=payload)


def wrong_output(execution: Execution, problems: list[TruncatedText], *, missing: bool) -> Outcome:
    """The outcome of an answer that does not fit the tool's output schema."""
    if missing and (tool := execution.prepared.export.tool) is not None:
        problems = [TruncatedText(f"there is no structured_output, but {tool.output_schema} requires one")]
    return execution.make_outcome(
        "failed", "invalid_output", "; ".join(map(execution.redactor.redact_truncated, problems))
    )
