"""The response bodies of vai.rpc.v1: a status and, on success, the result. Another shape raises Malformed."""

from __future__ import annotations

from typing import Annotated, Any, Generic, Literal, TypeVar

import msgspec

from plughost.errors import Malformed
from plughost.wire.framing import HEAD

Status = Literal["succeeded", "failed", "cancelled", "retryable_failure"]
Count = Annotated[int, msgspec.Meta(ge=0)]
T = TypeVar("T")


Part = dict[str, Any]
"""A content part, such as `{"type": "text", "text": …}`, with all its members: it may be written to a
chain."""


def _check(parts: list[Part]) -> None:
    for number, part in enumerate(parts):
        if not isinstance(part.get("type"), str):
            raise ValueError(f"Expected a `type` in content[{number}]")
        if part["type"] == "text" and not isinstance(part.get("text"), str):
            raise ValueError(f"Expected a `text` in content[{number}]")


class ToolResult(msgspec.Struct, frozen=True, kw_only=True):
    """The `result` of `tool.invoke`."""

    content: list[Part]
    structured_output: Any = None
    is_error: bool = False
    retryable: bool = False

    def __post_init__(self) -> None:
        if self.content:
            _check(self.content)


SeedBlock = dict[str, Any]
"""A block of a chain with a `kind` and its `content`; further members are kept, as in its chain."""
Diagnostics = dict[str, Any]
"""`input_tokens_estimate` and `output_tokens_estimate`, and any further members that a compactor reports."""


class _BlockShape(msgspec.Struct):
    kind: str
    content: list[Part]

    def __post_init__(self) -> None:
        _check(self.content)


def check_blocks(blocks: list[SeedBlock]) -> None:
    """Checks the shape of chain blocks. Raises ValueError for an invalid one."""
    msgspec.convert(blocks, list[_BlockShape])


class Summary(msgspec.Struct, frozen=True):
    """The `summary` in the results of `compactor.compact` and `harness.run`."""

    text: str


class _DiagnosticsShape(msgspec.Struct):
    input_tokens_estimate: Count
    output_tokens_estimate: Count


class CompactorResult(msgspec.Struct, frozen=True, kw_only=True):
    """The `result` of `compactor.compact`."""

    seed_blocks: list[SeedBlock]
    summary: Summary
    diagnostics: Diagnostics

    def __post_init__(self) -> None:
        check_blocks(self.seed_blocks)
        msgspec.convert(self.diagnostics, _DiagnosticsShape)


class Checkpoint(msgspec.Struct, frozen=True):
    """The `checkpoint` in the result of `harness.run`, from which a later run resumes."""

    kind: str
    data: Any = None


class HarnessResult(msgspec.Struct, frozen=True, kw_only=True):
    """The `result` of `harness.run`."""

    checkpoint: Checkpoint | None = None
    summary: Summary | None = None
    artifacts: list[Any] = []


class ResultProblem(msgspec.Struct, frozen=True):
    """The `error` in a response body: why the export did not succeed, in its own words."""

    code: str = ""
    message: str = ""


class ExportOutcome(msgspec.Struct, Generic[T], frozen=True):
    """The outcome of a request to an export of any kind: the body of the frame `response`."""

    status: Status
    result: T | None = None
    """Set whenever the export succeeded; None for a hook."""
    problem: ResultProblem | None = msgspec.field(default=None, name="error")


class _HookBody(msgspec.Struct):
    status: Literal["ack"] | Status
    error: ResultProblem | None = None


HOOK = "hook.handle"
_hooks = msgspec.json.Decoder(_HookBody)
_bodies: dict[str, msgspec.json.Decoder[Any]] = {
    "tool.invoke": msgspec.json.Decoder(ExportOutcome[ToolResult]),
    "compactor.compact": msgspec.json.Decoder(ExportOutcome[CompactorResult]),
    "harness.run": msgspec.json.Decoder(ExportOutcome[HarnessResult]),
}
_EXPECTED = {
    "tool.invoke": ", ".join(ToolResult.__struct_fields__),
    "compactor.compact": ", ".join(CompactorResult.__struct_fields__),
    "harness.run": ", ".join(HarnessResult.__struct_fields__),
}


def plain(result: Any) -> Any:
    """Converts a result to JSON's own types."""
    # Fast path: a tool's result, by far the most frequent, has only JSON types in its fields.
    return msgspec.structs.asdict(result) if isinstance(result, ToolResult) else msgspec.to_builtins(result)


def outcome(op: str, body: msgspec.Raw) -> ExportOutcome[Any]:
    """Decodes the body of the response to `op`. Raises Malformed, which says what was expected, and where."""
    try:
        if op == HOOK:
            hook_body = _hooks.decode(body)
            return ExportOutcome(
                "succeeded" if hook_body.status == "ack" else hook_body.status, None, hook_body.error
            )
        outcome_body: ExportOutcome[Any] = _bodies[op].decode(body)
        if outcome_body.result is None and outcome_body.status == "succeeded":
            raise ValueError(f"`result` is missing; expected {_EXPECTED[op]}")
    except (ValueError, RecursionError) as error:
        raise Malformed(f"its result of {op} is wrong: {error}", head=bytes(body)[:HEAD]) from error
    return outcome_body
