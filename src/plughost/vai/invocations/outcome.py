"""Outcome: how an invocation ended, with exactly one status and the reason of a failure."""

from __future__ import annotations

import signal
from typing import Any

import msgspec

from plughost.errors import BudgetExceeded, CallFailed, Crashed, InvalidSpec, Overloaded, PluginError, Timeout
from plughost.vai.packages.errors import Damaged


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """The end of one invocation: status, result or reason, and texts for people."""

    invocation_id: str
    status: str
    """succeeded | failed | cancelled | retryable_failure"""
    payload: Any = msgspec.field(default=None, name="result")
    """The result as the host has it; a large one is still JSON, as `msgspec.Raw`. None unless it
    succeeded."""
    reason: str | None = None
    """A code for programs: deadline_exceeded, crashed, collateral, invalid_input and others. With the prefix
    `plugin:` it is the plugin's own."""
    message: str | None = None
    """The reason in words, for people."""
    last_words: str | None = None
    """The last lines of its process's stderr, when it failed."""
    hint: str | None = None
    """What to do about the failure."""
    retries: int = 0

    @property
    def result(self) -> Any:
        """The result of the export, decoded. A large one is decoded at the first access, which takes some 40
        ms per MiB: where others wait for the event loop, use `payload` or access it in a thread."""
        if isinstance(self.payload, msgspec.Raw):
            msgspec.structs.force_setattr(self, "payload", msgspec.json.decode(self.payload))
        return self.payload

    def report(self) -> dict[str, Any]:
        """All fields as a dict, to be encoded as JSON; a large result stays encoded."""
        fields = msgspec.structs.asdict(self)
        fields["result"] = fields.pop("payload")
        return fields

    @property
    def ok(self) -> bool:
        return self.status == "succeeded"


NO_REASON_GIVEN = "plugin_said_so"
"""The reason of a failure for which the plugin gave no code."""
PLUGIN_REASON_PREFIX = "plugin:"
"""Prefix of a plugin's own error code, which could otherwise equal one of the host's."""
DEADLINE = "deadline_exceeded"
LIMIT_SIGNALS = {
    signal.SIGXCPU: "it used more processor time than cpu_seconds allows",
    signal.SIGXFSZ: "it exceeded the maximum file size",
}
"""Messages for the signals by which the kernel ends a process that exceeded a resource limit."""


class OutcomeVerdict(msgspec.Struct, frozen=True):
    """What an error means for an invocation: status, reason, and whether to retry."""

    status: str
    reason: str
    retry: bool
    """Whether a retry could succeed."""
    message: str | None = None
    """A clearer message than that of the error."""


def verdict(error: PluginError, *, retryable: bool) -> OutcomeVerdict:
    """Maps an error of the engine to a status. `retryable`: the invocation may be executed twice without
    harm."""
    if isinstance(error, Timeout):
        return OutcomeVerdict("cancelled", DEADLINE, retry=False)
    if isinstance(error, Overloaded | BudgetExceeded):
        return OutcomeVerdict("failed", BudgetExceeded.code, retry=False)
    if (exceeded := _exceeded_limit(error.exit_status)) is not None:
        return OutcomeVerdict("failed", BudgetExceeded.code, retry=False, message=exceeded)
    if isinstance(error, Crashed):
        return OutcomeVerdict("retryable_failure" if retryable else "failed", error.code, retry=retryable)
    if isinstance(error, CallFailed):
        answer = error.error  # as it came: `Execution.make_outcome` redacts it
        message = (
            f"it answered with {answer['code']}: {answer['message']}" if isinstance(answer, dict) else None
        )
        return OutcomeVerdict("failed", "protocol_failure", retry=False, message=message)
    if isinstance(error, Damaged):  # nothing of it was executed, and it can be repaired
        return OutcomeVerdict("retryable_failure", error.code, retry=False)
    if isinstance(error, InvalidSpec):
        return OutcomeVerdict("failed", "invalid_request", retry=False)
    return OutcomeVerdict("failed", error.code, retry=False)


def _exceeded_limit(exit_status: int | None) -> str | None:
    """The message for a process that exceeded a resource limit. The init process of a sandbox reports a
    signal as shells do: 128 plus its number."""
    messages = {
        status: message for number, message in LIMIT_SIGNALS.items() for status in (-number, 128 + number)
    }
    return None if exit_status is None else messages.get(exit_status)
