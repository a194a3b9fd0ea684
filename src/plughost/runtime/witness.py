"""What is told of one instance: its events to observers, its failures to callers."""

from __future__ import annotations

import signal
from typing import Any

from plughost.base.clock import Clock
from plughost.base.errors import PluginError
from plughost.base.events import EventHub
from plughost.base.hiding import Hidden
from plughost.runtime.session import Session

LONGEST = 4096
"""Characters of an error's message: a plugin's own words are in it, and everybody prints it."""


class Witness:
    """Knows the instance's name and its contract's words; the process tells its own last ones."""

    __slots__ = ("_clock", "_events", "_generation", "_hidden", "_name", "_session", "last_words")

    def __init__(
        self, name: str, generation: int, session: Session, events: EventHub, clock: Clock, hidden: Hidden
    ) -> None:
        self._name = name
        self._generation = generation
        self._session = session
        self._events = events
        self._clock = clock
        self._hidden = hidden
        self.last_words: Any = None
        """The tail of the running process's stderr."""

    def tell(self, kind: type[Any], **fields: Any) -> None:
        """An event, if anybody listens."""
        if self._events:
            fields = {name: self._hidden.value(value) for name, value in fields.items()}
            self._events.publish(
                kind(plugin=self._name, generation=self._generation, at=self._clock.time(), **fields)
            )

    def error(self, error: PluginError) -> PluginError:
        """The contract's spelling of `error`, with the plugin's name and last words."""
        spelling = self._session.errors.get(type(error))
        if spelling is not None:
            error = error.spelled(spelling)
        error.plugin = self._name
        if self.last_words is not None and not error.stderr_tail:
            error.stderr_tail = self.last_words.text()
        return self._shown(error)

    def _shown(self, error: PluginError) -> PluginError:
        """Without what must not be shown, and no longer than anybody reads."""
        error.stderr_tail = self._hidden.text(error.stderr_tail)
        message = self._hidden.text(error.message)
        if message != error.message:
            error.__cause__ = None
        if len(message) > LONGEST:
            message = f"{message[:LONGEST]}… ({len(message)} characters in all)"
        if message != error.message:
            error.message, error.args = message, (message,)
        return error


def story(status: int | None) -> str:
    """An exit status in words."""
    if status is None:
        return "it ended, and its exit status is lost"
    if status < 0:
        try:
            return f"it was ended by {signal.Signals(-status).name}"
        except ValueError:
            return f"it was ended by signal {-status}"
    return f"it exited with code {status}"
