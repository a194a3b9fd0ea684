"""What handlers return and raise, as the bodies of responses."""

from __future__ import annotations

import json

from plughost_sdk.message import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    Body = dict[str, Any]


class Failed(Exception):
    """It did not work out, and its words say why: no surprise, so that no traceback is logged."""


class Retryable(Failed):
    """It failed, and another try may help."""


class Result:
    """A tool's whole result, for one whose text differs from its structured output."""

    def __init__(
        self,
        content: str | Sequence[Body],
        structured_output: Any = None,
        *,
        is_error: bool = False,
        retryable: bool = False,
    ) -> None:
        self.content = [_text(content)] if isinstance(content, str) else [*content]
        self.structured_output = structured_output
        self.is_error = is_error
        self.retryable = retryable


class Compaction:
    """A compactor's seed blocks, `{"kind": "input", "content": [{"type": "text", "text": "…"}]}`."""

    def __init__(
        self,
        seed_blocks: Sequence[Body],
        summary: str,
        input_tokens_estimate: int,
        output_tokens_estimate: int,
        **diagnostics: Any,
    ) -> None:
        self.seed_blocks = [*seed_blocks]
        self.summary = summary
        self.diagnostics = {
            "input_tokens_estimate": input_tokens_estimate,
            "output_tokens_estimate": output_tokens_estimate,
            **diagnostics,
        }


class Outcome:
    """What a harness leaves: where it is (`checkpoint`, handed back when it resumes), and what it did."""

    def __init__(
        self, checkpoint: Body, summary: str, artifacts: Sequence[Any] = (), kind: str = "checkpoint"
    ) -> None:
        self.checkpoint = {"kind": kind, "data": checkpoint}
        self.summary = summary
        self.artifacts = [*artifacts]


def succeeded(kind: str, value: Any) -> Body:
    """The body for what a handler of this kind returned; TypeError if it is not what the kind returns."""
    if kind == "hook":
        return {"status": "ack"}
    if kind == "tool":
        return _of_tool(value if isinstance(value, Result) else Result(_shown(value), value))
    if kind == "compactor" and isinstance(value, Compaction):
        summary = {"text": value.summary}
        told: Body = {"seed_blocks": value.seed_blocks, "summary": summary, "diagnostics": value.diagnostics}
    elif kind == "harness" and isinstance(value, Outcome):
        summary = {"text": value.summary}
        told = {"checkpoint": value.checkpoint, "summary": summary, "artifacts": value.artifacts}
    elif isinstance(value, dict):
        told = value
    else:
        expected = "vai.Compaction" if kind == "compactor" else "vai.Outcome"
        raise TypeError(f"a {kind} returns {expected}, or its result as a dict, not {value!r:.60}")
    return {"status": "succeeded", "result": told}


CANCELLED: Body = {"status": "cancelled"}


def failed(kind: str, words: str, *, retryable: bool = False) -> Body:
    told = problem("plugin.failed", words, retryable=retryable)
    if kind == "tool":  # what its model reads
        told |= _of_tool(Result(told["error"]["message"], is_error=True, retryable=retryable))
    return told


def problem(code: str, words: str, *, retryable: bool = False) -> Body:
    return {"status": _status(True, retryable), "error": {"code": code, "message": printable(words)}}


def _of_tool(result: Result) -> Body:
    told = {
        "content": result.content,
        "structured_output": result.structured_output,
        "is_error": result.is_error,
        "retryable": result.retryable,
    }
    return {"status": _status(result.is_error, result.retryable), "result": told}


def _status(is_error: bool, retryable: bool) -> str:
    if not is_error:
        return "succeeded"
    return "retryable_failure" if retryable else "failed"


def _shown(value: Any) -> str | list[Body]:
    """A plain value as a model reads it."""
    if value is None:
        return []
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def _text(text: str) -> Body:
    return {"type": "text", "text": text}
