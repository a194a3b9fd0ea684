"""Checks of input, configuration and answers in worker processes, so that they do not block the event loop.

Values that are small for their schema are checked without a worker; `_util/json_schema/cost.py` has the
limit. A check ends at the deadline of its invocation.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any

import msgspec

from plughost._util.text import TruncatedText
from plughost.clock import Clock
from plughost.errors import InvalidSpec, Malformed, Overloaded, PluginError, Timeout
from plughost.vai.bindings.binding import Scope
from plughost.vai.bindings.prepared import PreparedBinding
from plughost.vai.bindings.schemas import CompiledSchema
from plughost.vai.checks.worker_pool import Key, WorkerPool
from plughost.vai.invocations.execution import Execution
from plughost.vai.invocations.outcome import Outcome
from plughost.vai.invocations.requests import ToolRequest
from plughost.vai.invocations.results import failure, unsuccessful, wrong_output
from plughost.wire.messages import encode

WORKER = "plughost.vai.checks.answer_worker"
MAX_DECODED = 1 << 20
"""Bytes of a result that the host itself decodes, of a compactor or a harness."""


class Checks:
    """Checks values against schemas, on the event loop where that is quick and otherwise in a pool of
    workers."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.pool = WorkerPool(WORKER, clock)
        self._checked: dict[str, PreparedBinding] = {}
        """Bindings whose configuration was checked, by id."""

    async def close(self) -> None:
        """Kills the worker processes."""
        await self.pool.close()

    async def config(self, prepared: PreparedBinding) -> None:
        """Checks the configuration of a binding; InvalidSpec lists the problems."""
        schema, binding = prepared.config, prepared.binding
        if schema is None or self._checked.get(binding.binding_id) is prepared:
            return
        deadline = self._clock.time() + prepared.seconds
        written = msgspec.json.encode(dict(binding.config))
        problems = await self._problems(schema, written, _key(prepared, binding.scope), deadline)
        if problems:
            why = "; ".join(f"config: {problem.unhidden}" for problem in problems)
            raise InvalidSpec(why, plugin=binding.package_id)
        self._checked[binding.binding_id] = prepared

    def input(
        self, execution: Execution, schema: CompiledSchema, value: Any
    ) -> Outcome | Awaitable[Outcome | None] | None:
        """The outcome of an invocation whose input is invalid; None when it is valid.

        At once where the value is small for its schema; otherwise an awaitable of that.
        """
        written = encode(value)
        if len(written) <= schema.at_once:
            if schema.fits(value):
                return None
            if len(written) <= schema.explained_at_once:
                return _wrong_input(execution, schema.problems(value))
        return self._input(execution, schema, written)

    async def _input(self, execution: Execution, schema: CompiledSchema, written: bytes) -> Outcome | None:
        try:
            problems = await self._problems(
                schema, written, _key(execution.prepared, execution.scope), execution.deadline
            )
        except PluginError as error:
            return failure(execution, error)[0]
        return _wrong_input(execution, problems) if problems else None

    async def answer(self, execution: Execution, answer: msgspec.Raw) -> Outcome:
        """Evaluates a large answer, as `ResultHandler.evaluate` does a small one. The result stays JSON."""
        schema = execution.prepared.output
        text = b"" if schema is None else schema.text
        head = {"job": "answer", "op": execution.prepared.op, "schema": len(text)}
        key = _key(execution.prepared, execution.scope)
        reply, written = await self.pool.ask(
            head, text, memoryview(answer), key=key, deadline=execution.deadline
        )
        _raise_failure(reply, schema)
        if (why := reply.get("malformed")) is not None:
            raise Malformed(why, head=bytes.fromhex(reply["head"]))
        if "problems" in reply:
            return wrong_output(execution, _problem_texts(reply), missing=reply["missing"])
        payload = await self._payload(execution, reply["pieces"], written)
        if reply["status"] != "succeeded":
            code, message = msgspec.convert(
                (reply["code"], reply["message"]), tuple[TruncatedText, TruncatedText | None]
            )
            return unsuccessful(execution, reply["status"], code, message, payload)
        return Outcome(
            invocation_id=execution.id, status="succeeded", payload=payload, retries=execution.retries
        )

    async def _payload(self, execution: Execution, pieces: list[int] | None, written: memoryview) -> Any:
        """The result with secrets redacted, piece by piece, so that other tasks run in between."""
        if pieces is None:
            return None
        try:
            async with asyncio.timeout(execution.left):
                redacted = await execution.redactor.redact_encoded_json(written, pieces)
        except TimeoutError:
            raise Timeout("looking for secrets in its answer took too long") from None
        if isinstance(execution.invocation.work, ToolRequest):
            return msgspec.Raw(redacted)
        if len(redacted) > MAX_DECODED:
            op = execution.prepared.op
            raise Malformed(f"its result of {op} has {len(redacted)} bytes; the largest is {MAX_DECODED}")
        return msgspec.json.decode(redacted)

    async def _problems(
        self, schema: CompiledSchema, written: bytes, key: Key, deadline: float
    ) -> list[TruncatedText]:
        head = {"job": "check", "schema": len(schema.text)}
        reply, _ = await self.pool.ask(head, schema.text, written, key=key, deadline=deadline)
        _raise_failure(reply, schema)
        return _problem_texts(reply)


def _problem_texts(reply: dict[str, Any]) -> list[TruncatedText]:
    return msgspec.convert(reply["problems"], list[TruncatedText])


def _wrong_input(execution: Execution, problems: list[TruncatedText]) -> Outcome:
    return execution.make_outcome(
        "failed", "invalid_input", "; ".join(map(execution.redactor.redact_truncated, problems))
    )


def _key(prepared: PreparedBinding, scope: Scope) -> Key:
    """The pool key for fair scheduling: organisation, project, package."""
    return scope.org_id, scope.project_id, prepared.package.digest


def _raise_failure(reply: dict[str, Any], schema: CompiledSchema | None) -> None:
    if (why := reply.get("wrong_schema")) is not None:
        path = "" if schema is None else schema.path
        raise InvalidSpec(f"its schema {path} cannot be used: {why}")
    if "failed" in reply:
        raise Overloaded("checking it takes more memory than a worker process has")
