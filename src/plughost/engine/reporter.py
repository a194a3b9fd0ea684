"""What is told of one instance: its events to observers, its failures to callers."""

from __future__ import annotations

import signal
from typing import Any

from plughost._util.redaction.redactor import Redactor
from plughost._util.text import excerpt
from plughost.clock import Clock
from plughost.engine.rate_limit import TokenBucket
from plughost.engine.session import Session
from plughost.errors import PluginError
from plughost.events import Dropped, EventHub

LONGEST = 4096
"""Characters of an error's message: a plugin's own words are in it, and everybody prints it."""
DROPS_TOLD = 20
"""Things that were dropped and are told one by one. Of more in a second, only how many there were."""


class Reporter:
    """Knows the instance's name and its contract's words; the process tells its own last ones."""

    __slots__ = (
        "_clock", "_drops", "_events", "_generation", "_hidden", "_name", "_session", "_untold", "last_words",
    )  # fmt: skip

    def __init__(
        self, name: str, generation: int, session: Session, events: EventHub, clock: Clock, hidden: Redactor
    ) -> None:
        self._name = name
        self._generation = generation
        self._session = session
        self._events = events
        self._clock = clock
        self._hidden = hidden
        self._drops: TokenBucket | None = None  # made at need
        self._untold = 0
        self.last_words: Any = None
        """The tail of the running process's stderr."""

    def tell(self, kind: type[Any], **fields: Any) -> None:
        """An event, if anybody listens."""
        if self._events:
            fields = {name: self._hidden.redact_json(value) for name, value in fields.items()}
            self._events.publish(
                kind(plugin=self._name, generation=self._generation, at=self._clock.time(), **fields)
            )

    def dropped(self, what: str, head: bytes) -> None:
        """Something was not used. A plugin that floods its host floods nobody who listens to it: what is too
        much at once is only counted until it gets less."""
        if self._drops is None:
            self._drops = TokenBucket(DROPS_TOLD, self._clock.time)
        if self._drops.take() and not self._drops.overflowing:
            self.rest_of_drops()
            self._tell_drop(what, head)
        elif self._drops.overflows():
            self._tell_drop(f"{what} (and more, which are counted until there are fewer)", head)
        else:
            self._untold += 1

    def rest_of_drops(self) -> None:
        """How many were counted since the last one that was told."""
        if self._untold:
            self._tell_drop(f"{self._untold} more, which were only counted", b"")
            self._untold = 0

    def _tell_drop(self, what: str, head: bytes) -> None:
        self.tell(Dropped, what=what, head=self._hidden.redact_fragment(excerpt(head)))

    def error(self, error: PluginError) -> PluginError:
        """The contract's spelling of `error`, with the plugin's name and last words."""
        spelling = self._session.errors.get(type(error))
        if spelling is not None:
            error = error.as_type(spelling)
        error.plugin = self._name
        if self.last_words is not None and not error.stderr_tail:
            error.stderr_tail = self.last_words.text()
        return self._shown(error)

    def _shown(self, error: PluginError) -> PluginError:
        """Without what must not be shown, and no longer than anybody reads."""
        error.stderr_tail = self._hidden.redact(error.stderr_tail)
        message = self._hidden.redact(error.message)
        if message != error.message:
            error.__cause__ = None
        if len(message) > LONGEST:
            message = f"{message[:LONGEST]}… ({len(message)} characters in all)"
        if message != error.message:
            error.message, error.args = message, (message,)
        return error


def describe_exit(status: int | None) -> str:
    """An exit status in words."""
    if status is None:
        return "it ended, and its exit status is lost"
    if status < 0:
        try:
            return f"it was ended by {signal.Signals(-status).name}"
        except ValueError:
            return f"it was ended by signal {-status}"
    return f"it exited with code {status}"
