"""How an invocation ended: exactly one status, and why it is not the one that was wished for."""

from __future__ import annotations

import signal
from typing import Any

import msgspec

from plughost.errors import BudgetExceeded, CallFailed, Crashed, InvalidSpec, Overloaded, PluginError, Timeout
from plughost.vai.packages.errors import Damaged


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    invocation_id: str
    status: str
    """succeeded | failed | cancelled | retryable_failure"""
    payload: Any = msgspec.field(default=None, name="result")
    """The result as the host has it: a large one is JSON still, as Raw. None unless it succeeded."""
    reason: str | None = None
    """deadline_exceeded, crashed, collateral, invalid_input …: a word for programs. With `plugin:` before it,
    the plugin's own."""
    message: str | None = None
    """The same for people."""
    last_words: str | None = None
    """What its process wrote to stderr last, when it failed."""
    hint: str | None = None
    """What to do about it."""
    retries: int = 0

    @property
    def result(self) -> Any:
        """What its kind of export returns. A large one is decoded when it is first asked for, which takes
        some 40 ms for each MiB: leave it `payload`, or ask in a thread, where others wait for the loop."""
        if isinstance(self.payload, msgspec.Raw):
            msgspec.structs.force_setattr(self, "payload", msgspec.json.decode(self.payload))
        return self.payload

    def report(self) -> dict[str, Any]:
        """All of it by name, to be written as JSON: a large result stays as it is."""
        told = msgspec.structs.asdict(self)
        told["result"] = told.pop("payload")
        return told

    @property
    def ok(self) -> bool:
        return self.status == "succeeded"


SAID_SO = "plugin_said_so"
"""The reason of a failure that a plugin has no word for."""
PLUGINS_OWN = "plugin:"
"""Before a plugin's own word for it, which might be one of the host's."""
DEADLINE = "deadline_exceeded"
EXCEEDED = {
    signal.SIGXCPU: "it used more processor time than cpu_seconds allows",
    signal.SIGXFSZ: "it wrote past the end of the largest file that it may have",
}
"""What the kernel ends a process for, by the signal that it does it with."""


class OutcomeVerdict(msgspec.Struct, frozen=True):
    status: str
    reason: str
    again: bool
    """Whether another try could end otherwise."""
    message: str | None = None
    """Better words than the error has."""


def verdict(error: PluginError, *, retryable: bool) -> OutcomeVerdict:
    """What a failure of the engine means for an invocation whose effects may (`retryable`) be doubled."""
    if isinstance(error, Timeout):
        return OutcomeVerdict("cancelled", DEADLINE, again=False)
    if isinstance(error, Overloaded | BudgetExceeded):
        return OutcomeVerdict("failed", BudgetExceeded.code, again=False)
    if (exceeded := _exceeded(error.exit_status)) is not None:
        return OutcomeVerdict("failed", BudgetExceeded.code, again=False, message=exceeded)
    if isinstance(error, Crashed):
        return OutcomeVerdict("retryable_failure" if retryable else "failed", error.code, again=retryable)
    if isinstance(error, CallFailed):
        said = error.error  # as it came: what is to be hidden in it its invocation knows
        told = f"it answered with {said['code']}: {said['message']}" if isinstance(said, dict) else None
        return OutcomeVerdict("failed", "protocol_failure", again=False, message=told)
    if isinstance(error, Damaged):  # nothing of it was run, and it can be repaired
        return OutcomeVerdict("retryable_failure", error.code, again=False)
    if isinstance(error, InvalidSpec):
        return OutcomeVerdict("failed", "invalid_request", again=False)
    return OutcomeVerdict("failed", error.code, again=False)


def _exceeded(exit_status: int | None) -> str | None:
    """A sandbox's first process tells of a signal as shells do, by a code."""
    ends = {status: words for number, words in EXCEEDED.items() for status in (-number, 128 + number)}
    return None if exit_status is None else ends.get(exit_status)
