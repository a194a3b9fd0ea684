"""Host events as text."""

from __future__ import annotations

from plughost.events import Dropped, Event, Exited, Linted, Logged, Notified, Spawned, StateChanged


def event_text(event: Event) -> list[str]:
    """The event on one line, and the last lines of the plugin's stderr on further ones."""
    if isinstance(event, Exited):
        how = "ended" if event.expected else "died"
        tail = [f"    {line}" for line in event.stderr_tail.splitlines()]
        return [f"{how}, exit status {event.exit_status}", *tail]
    return [_on_one_line(event)]


def is_repetition(event: Event) -> bool:
    """Whether other events say the same: the log has a line for each failure, and so has the lifecycle."""
    return isinstance(event, Logged) and event.source == "failed"


def _on_one_line(event: Event) -> str:
    if isinstance(event, Spawned):
        return f"started under launcher process {event.pid}"
    if isinstance(event, StateChanged):
        return f"{event.old} → {event.new} ({event.why})"
    if isinstance(event, Dropped):
        return f"dropped: {event.what} {event.head}".rstrip()
    if isinstance(event, Linted):
        return f"lint: {event.what}"
    if isinstance(event, Logged):
        return f"{event.level}: {event.message}"
    if isinstance(event, Notified):
        return f"says {event.method}"
    return type(event).__name__
