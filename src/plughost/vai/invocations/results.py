"""Results of exports: checked against the manifest's schemas, and persisted as artifacts and chain blocks."""

from __future__ import annotations

import asyncio
import sqlite3
from typing import Any

import msgspec

from plughost._util.text import TruncatedText
from plughost.contracts.vai.results import outcome as read_outcome
from plughost.contracts.vai.results import plain
from plughost.errors import HostFailed, PluginError
from plughost.vai.invocations.artifacts import collect_artifacts
from plughost.vai.invocations.execution import Execution
from plughost.vai.invocations.outcome import PLUGINS_OWN, SAID_SO, Outcome, verdict
from plughost.vai.invocations.requests import CompactionRequest, HarnessRequest, ToolRequest
from plughost.vai.state.chains import Block, ChainSink

LONGEST_REASON, LONGEST_MESSAGE = 100, 4096
"""Characters of a plugin's own error code and message in a record."""


class ResultHandler:
    """Evaluates the answer of an export, and persists what outlives its invocation."""

    def __init__(self, chains: ChainSink | None, artifacts: str | None = None) -> None:
        self._chains = chains
        self._artifacts = artifacts

    def evaluate(self, run: Execution, answer: msgspec.Raw) -> Outcome | None:
        """The outcome that a small answer means. Malformed when the answer has not the form of its kind.

        None when the answer does not fit its schema and listing the problems here takes too long.
        """
        told = read_outcome(run.prepared.op, answer)
        result: Any = None if told.result is None else run.hidden.redact_json(plain(told.result))
        if told.status != "succeeded":
            problem = told.problem
            if problem is None:
                return unsuccessful(run, told.status, TruncatedText(""), None, result)
            return unsuccessful(
                run, told.status, TruncatedText(problem.code), TruncatedText(problem.message), result
            )
        schema = run.prepared.output
        if schema is None or result["is_error"] or schema.fits(output := result["structured_output"]):
            return Outcome(invocation_id=run.id, status="succeeded", payload=result, retries=run.retries)
        if len(memoryview(answer)) > schema.told_at_once:
            return None
        return wrong_output(run, schema.problems(output), missing=output is None)

    def is_to_be_kept(self, run: Execution, outcome: Outcome) -> bool:
        """Whether the result has something to persist: artifacts of a harness, or blocks for a chain."""
        if outcome.status != "succeeded":
            return False
        work = run.wanted.work
        if isinstance(work, HarnessRequest):
            return bool(outcome.result["artifacts"])
        if self._chains is None:
            return False
        return isinstance(work, CompactionRequest) or run.wanted.related.chain_id is not None

    async def persist(self, run: Execution, outcome: Outcome, scratch: str | None = None) -> Outcome:
        """Stores artifacts and chain blocks. Returns the outcome with digests and chain ids instead of
        paths."""
        result = outcome.payload if isinstance(run.wanted.work, ToolRequest) else outcome.result
        if isinstance(run.wanted.work, HarnessRequest) and result["artifacts"]:
            files = await asyncio.to_thread(
                collect_artifacts, result["artifacts"], scratch, self._artifacts, run.hidden
            )
            result = {**result, "artifacts": files}
        if self._chains is not None:
            try:
                result = await self._written(self._chains, run, result)
            except (OSError, sqlite3.Error) as error:
                raise HostFailed(f"its result could not be written into a chain: {error}") from error
        return msgspec.structs.replace(outcome, payload=result)

    async def _written(self, chains: ChainSink, run: Execution, result: Any) -> Any:
        """Writes the result of a tool into its chain, or a compaction into a new chain."""
        work, chain_id = run.wanted.work, run.wanted.related.chain_id
        if isinstance(work, ToolRequest) and chain_id is not None:
            await chains.insert_tool_result(run.scope, chain_id, work.tool_execution_id, result)
        elif isinstance(work, CompactionRequest):
            seeds = [Block.of(seed) for seed in result["seed_blocks"]]
            compactor = run.prepared.export.compactor
            if compactor is not None and not compactor.supports_pinned_items:
                seeds = [*_pinned(work, seeds), *seeds]
            derived = await chains.derive(run.scope, work.chain_id, work.compaction_id, seeds)
            result = {**result, "derived_chain_id": derived}
        return result


def _pinned(work: CompactionRequest, seeds: list[Block]) -> list[Block]:
    """The pinned items that are missing in the seed blocks: blocks of the chain by id, others as new
    blocks."""
    known = {block["id"]: block for block in work.blocks if _has_name(block)}
    there = {seed.more["id"] for seed in seeds if _has_name(seed.told)}
    pins = []
    for item in work.pinned_items:
        name = item.get("block_id", item.get("id")) if isinstance(item, dict) else item
        if isinstance(name, str) and name in known:
            pins += [] if name in there else [Block.of(known[name])]
            there.add(name)
        else:
            pins.append(Block("pinned", [{"type": "text", "text": item} if isinstance(item, str) else item]))
    return pins


def _has_name(block: Any) -> bool:
    named = isinstance(block, dict) and isinstance(block.get("id"), str)
    return named and {"kind", "content"} <= block.keys()


def failure(run: Execution, error: PluginError) -> tuple[Outcome, bool]:
    """The outcome that an error means for an invocation, and whether to retry."""
    judged = verdict(error, retryable=run.prepared.retryable)
    why = judged.message or error.message
    shared = run.process is not None and run.process.shared
    last_words = "" if shared else error.stderr_tail
    return run.ended_as(judged.status, judged.reason, why, last_words, error.hint), judged.again


def unsuccessful(
    run: Execution, status: str, code: TruncatedText, message: TruncatedText | None, payload: Any
) -> Outcome:
    """The outcome of a failure that the plugin itself reported. Secrets are redacted before texts are
    truncated."""
    word = run.hidden.redact_truncated(code)
    reason = f"{PLUGINS_OWN}{word}"[:LONGEST_REASON] if word else SAID_SO
    why = None if message is None else run.hidden.redact_truncated(message)[:LONGEST_MESSAGE]
    return msgspec.structs.replace(run.ended_as(status, reason, why), payload=payload)


def wrong_output(run: Execution, problems: list[TruncatedText], *, missing: bool) -> Outcome:
    """The outcome of an answer that does not fit the tool's output schema."""
    if missing and (tool := run.prepared.export.tool) is not None:
        problems = [TruncatedText(f"there is no structured_output, and {tool.output_schema} wants one")]
    return run.ended_as("failed", "invalid_output", "; ".join(map(run.hidden.redact_truncated, problems)))
