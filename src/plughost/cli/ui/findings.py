"""Findings: what the host noticed about a plugin during a call and a person should see beside the result."""

from __future__ import annotations

from plughost.cli.ui import output
from plughost.engine.supervisor import State
from plughost.errors import PluginError, Timeout
from plughost.events import Dropped, Event, Logged, Subscription
from plughost.host import Host

MOST = 20
"""Denials that are shown; a plugin may cause any number."""
STOPPED = "it was stopped; --timeout SECONDS gives it more time; `plughost dev` shows its messages"


def timeout_hint(plugin: str, state: str) -> str:
    """What became of a running host's plugin after a call that timed out, and what to do."""
    if state != State.RUNNING.value:
        return STOPPED
    return (
        f"it still runs, and the call was cancelled; --timeout SECONDS gives it more time; if it hangs, "
        f"`plughost restart {plugin}` ends it and `plughost logs {plugin}` shows what it wrote to stderr"
    )


class Findings:
    """Collects what a host's plugins were denied and what they sent in vain, to be shown once the host is
    closed."""

    def __init__(self) -> None:
        self._events: Subscription | None = None

    def watch(self, host: Host) -> None:
        """Collect from now on."""
        self._events = host.events()

    def show(self, error: PluginError | None = None) -> None:
        """Print each denial with the grant that would allow it. A call that timed out gets as its hint what
        the plugin sent last in vain: the reason is often an answer that was not flushed, or a stray print."""
        events = self._taken()
        denials = [
            *dict.fromkeys(e.message for e in events if isinstance(e, Logged) and e.source == "denied")
        ]
        for denial in denials[:MOST]:
            output.say(f"denied: {denial}")
        if len(denials) > MOST:
            output.say(f"denied: {len(denials) - MOST} more")
        drops = [event for event in events if isinstance(event, Dropped)]
        if isinstance(error, Timeout) and not error.hint:
            error.hint = STOPPED
            if drops:
                error.hint = f"the host dropped {drops[-1].what} {drops[-1].head}".rstrip()

    def _taken(self) -> list[Event]:
        taken = []
        while self._events is not None and (event := self._events.take()) is not None:
            taken.append(event)
        return taken
