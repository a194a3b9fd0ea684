"""What exports answer: a status, and with success the result of their kind. Another shape is Malformed."""

from __future__ import annotations

from typing import Annotated, Any, Generic, Literal, TypeVar

import msgspec

from plughost.errors import Malformed
from plughost.wire.framing import HEAD

Status = Literal["succeeded", "failed", "cancelled", "retryable_failure"]
Count = Annotated[int, msgspec.Meta(ge=0)]
T = TypeVar("T")


Part = dict[str, Any]
"""Something said, such as `{"type": "text", "text": …}`, with all its members: it may go into a chain."""


def _check(parts: list[Part]) -> None:
    for number, part in enumerate(parts):
        if not isinstance(part.get("type"), str):
            raise ValueError(f"Expected a `type` in content[{number}]")
        if part["type"] == "text" and not isinstance(part.get("text"), str):
            raise ValueError(f"Expected a `text` in content[{number}]")


class ToolResult(msgspec.Struct, frozen=True, kw_only=True):
    content: list[Part]
    structured_output: Any = None
    is_error: bool = False
    retryable: bool = False

    def __post_init__(self) -> None:
        if self.content:
            _check(self.content)


SeedBlock = dict[str, Any]
"""A block of a chain, of a `kind` and with its `content`; whatever else it has it keeps, as in its chain."""
Diagnostics = dict[str, Any]
"""`input_tokens_estimate` and `output_tokens_estimate`, and whatever a compactor tells beside them."""


class _BlockShape(msgspec.Struct):
    kind: str
    content: list[Part]

    def __post_init__(self) -> None:
        _check(self.content)


def check_blocks(blocks: list[SeedBlock]) -> None:
    """ValueError for one that is no block."""
    msgspec.convert(blocks, list[_BlockShape])


class Summary(msgspec.Struct, frozen=True):
    text: str


class _DiagnosticsShape(msgspec.Struct):
    input_tokens_estimate: Count
    output_tokens_estimate: Count


class CompactorResult(msgspec.Struct, frozen=True, kw_only=True):
    seed_blocks: list[SeedBlock]
    summary: Summary
    diagnostics: Diagnostics

    def __post_init__(self) -> None:
        check_blocks(self.seed_blocks)
        msgspec.convert(self.diagnostics, _DiagnosticsShape)


class Checkpoint(msgspec.Struct, frozen=True):
    kind: str
    data: Any = None


class HarnessResult(msgspec.Struct, frozen=True, kw_only=True):
    checkpoint: Checkpoint | None = None
    summary: Summary | None = None
    artifacts: list[Any] = []


class ResultProblem(msgspec.Struct, frozen=True):
    """Why an export did not succeed, in its own words."""

    code: str = ""
    message: str = ""


class HookOutcome(msgspec.Struct, Generic[T], frozen=True):
    status: Status
    result: T | None = None
    """There whenever it succeeded; of a hook there is none."""
    problem: ResultProblem | None = msgspec.field(default=None, name="error")


class _HookBody(msgspec.Struct):
    status: Literal["ack"] | Status
    error: ResultProblem | None = None


HOOK = "hook.handle"
_hooks = msgspec.json.Decoder(_HookBody)
_bodies: dict[str, msgspec.json.Decoder[Any]] = {
    "tool.invoke": msgspec.json.Decoder(HookOutcome[ToolResult]),
    "compactor.compact": msgspec.json.Decoder(HookOutcome[CompactorResult]),
    "harness.run": msgspec.json.Decoder(HookOutcome[HarnessResult]),
}
_EXPECTED = {
    "tool.invoke": ", ".join(ToolResult.__struct_fields__),
    "compactor.compact": ", ".join(CompactorResult.__struct_fields__),
    "harness.run": ", ".join(HarnessResult.__struct_fields__),
}


def plain(result: Any) -> Any:
    """A result in JSON's own types."""
    # A tool's, which is by far the most frequent, is made of them but for itself.
    return msgspec.structs.asdict(result) if isinstance(result, ToolResult) else msgspec.to_builtins(result)


def outcome(op: str, body: msgspec.Raw) -> HookOutcome[Any]:
    """The body of a response to `op`; Malformed says what was expected, and where."""
    try:
        if op == HOOK:
            told = _hooks.decode(body)
            return HookOutcome("succeeded" if told.status == "ack" else told.status, None, told.error)
        answered: HookOutcome[Any] = _bodies[op].decode(body)
        if answered.result is None and answered.status == "succeeded":
            raise ValueError(f"`result` is missing; expected {_EXPECTED[op]}")
    except (ValueError, RecursionError) as error:
        raise Malformed(f"its result of {op} is wrong: {error}", head=bytes(body)[:HEAD]) from error
    return answered
