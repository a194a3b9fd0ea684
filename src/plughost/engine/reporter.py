"""Reporter: emits the events of one instance for observers, and completes its errors for callers."""

from __future__ import annotations

import signal
from typing import Any

from plughost._util.redaction.redactor import Redactor
from plughost._util.text import escape_controls, excerpt
from plughost.clock import Clock
from plughost.engine.rate_limit import TokenBucket
from plughost.engine.session import Session
from plughost.errors import Malformed, PluginError
from plughost.events import Dropped, EventHub

MAX_MESSAGE = 4096
"""Limit of an error message in characters: it contains text of the plugin, and everybody prints it."""
MAX_EXCERPT = 200
"""Limit in characters of the part of a malformed message that is shown."""
DROPS_PER_SECOND = 20
"""Dropped messages that get an event each; of more in a second only the number is reported."""


class Reporter:
    """Adds to events and errors of an instance its name, its contract's error classes and the last lines of
    its stderr, and redacts secrets."""

    __slots__ = (
        "_clock", "_drop_bucket", "_events", "_generation", "_name", "_redactor", "_session",
        "_unreported_drops", "stderr_tail",
    )  # fmt: skip

    def __init__(
        self, name: str, generation: int, session: Session, events: EventHub, clock: Clock, redactor: Redactor
    ) -> None:
        self._name = name
        self._generation = generation
        self._session = session
        self._events = events
        self._clock = clock
        self._redactor = redactor
        self._drop_bucket: TokenBucket | None = None  # made at need
        self._unreported_drops = 0
        self.stderr_tail: Any = None
        """The StderrTail of the running process, or None."""

    def emit(self, kind: type[Any], **fields: Any) -> None:
        """Publish an event of the class `kind`, if anybody has subscribed."""
        if self._events:
            fields = {name: self._redactor.redact_json(value) for name, value in fields.items()}
            self._events.publish(
                kind(plugin=self._name, generation=self._generation, at=self._clock.time(), **fields)
            )

    def dropped(self, what: str, head: bytes) -> None:
        """Report a dropped message. Events are rate limited, so that a plugin that floods its host does not
        flood the observers: in a flood, dropped messages are only counted."""
        if self._drop_bucket is None:
            self._drop_bucket = TokenBucket(DROPS_PER_SECOND, self._clock.time)
        if self._drop_bucket.take() and not self._drop_bucket.overflowing:
            self.emit_drop_count()
            self._emit_drop(what, head)
        elif self._drop_bucket.overflows():
            self._emit_drop(f"{what} (there are too many to list; from now on they are only counted)", head)
        else:
            self._unreported_drops += 1

    def emit_drop_count(self) -> None:
        """Report how many messages were dropped and only counted since the last event."""
        if self._unreported_drops:
            self._emit_drop(f"{self._unreported_drops} more that were not listed", b"")
            self._unreported_drops = 0

    def _emit_drop(self, what: str, head: bytes) -> None:
        self.emit(Dropped, what=what, head=self._redactor.redact_fragment(excerpt(head)))

    def error(self, error: PluginError) -> PluginError:
        """`error` as the contract's own class, with the plugin's name and the tail of its stderr, and
        redacted."""
        kind = self._session.errors.get(type(error))
        if kind is not None:
            error = error.as_type(kind)
        error.plugin = self._name
        if self.stderr_tail is not None and not error.stderr_tail:
            error.stderr_tail = self.stderr_tail.text()
        return self._redact_and_shorten(error)

    def _redact_and_shorten(self, error: PluginError) -> PluginError:
        """Redact secrets in the message and the stderr tail, and shorten a long message."""
        error.stderr_tail = self._redactor.redact(error.stderr_tail)
        if isinstance(error, Malformed) and error.head:
            shown = escape_controls(self._redactor.redact_fragment(excerpt(error.head)))
            error.excerpt = shown if len(shown) <= MAX_EXCERPT else f"{shown[:MAX_EXCERPT]}…"
        message = self._redactor.redact(error.message)
        if message != error.message:
            error.__cause__ = None
        if len(message) > MAX_MESSAGE:
            message = f"{message[:MAX_MESSAGE]}… ({len(message)} characters in all)"
        if message != error.message:
            error.message, error.args = message, (message,)
        return error


def describe_exit(status: int | None) -> str:
    """An exit status as a sentence for error messages."""
    if status is None:
        return "it ended with an unknown exit status"
    if status < 0:
        try:
            return f"it was killed by {signal.Signals(-status).name}"
        except ValueError:
            return f"it was killed by signal {-status}"
    return f"it exited with code {status}"
