"""Events in words, for people."""

from __future__ import annotations

from plughost.base.events import Dropped, Event, Exited, Linted, Logged, Notified, Spawned, StateChanged
from plughost.base.text import visible


def in_words(event: Event) -> str:
    """What happened, on one line but for a plugin's last words."""
    if isinstance(event, Spawned):
        return f"started below process {event.pid}"
    if isinstance(event, StateChanged):
        return f"{event.old} → {event.new} ({visible(event.why)})"
    if isinstance(event, Exited):
        how = "ended" if event.expected else "died"
        tail = "".join(f"\n    {line}" for line in event.stderr_tail.splitlines())
        return f"{how}, exit status {event.exit_status}{tail}"
    if isinstance(event, Dropped):
        return f"dropped: {visible(event.what)} {visible(event.head)}".rstrip()
    if isinstance(event, Linted):
        return f"lint: {visible(event.what)}"
    if isinstance(event, Logged):
        return f"{event.level}: {visible(event.message)}"
    if isinstance(event, Notified):
        return f"says {visible(event.method)}"
    return type(event).__name__
