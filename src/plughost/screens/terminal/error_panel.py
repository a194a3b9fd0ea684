"""What is shown instead of a plugin's screen while the plugin has none to show."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import NamedTuple

from plughost._util.text import escape_controls
from plughost.contracts.ainb.messages import BOLD, DIM, Color
from plughost.screens.cell_width import columns_of
from plughost.screens.render import Row, line

RED = Color(224, 108, 117)
LAST_LINES = 8


class ErrorPanel(NamedTuple):
    """Why there is no frame, in words for people."""

    title: str
    why: str = ""
    remedy: str = ""
    restartable: bool = True
    """Whether to offer the key that ends it and starts it anew."""


FAILED = ("Backoff", "Quarantined")
"""States that come of a failure."""
STARTING = ErrorPanel("is starting", restartable=False)


def of_state(state: str, why: str) -> ErrorPanel | None:
    """The trouble that a plugin's state is; None when it may well answer."""
    if state == "Backoff":
        return ErrorPanel("has crashed", why, "The host starts it again by itself, a little later each time.")
    if state == "Quarantined":
        remedy = "It has failed too often and is not started again. Mend it, then restart it."
        return ErrorPanel("is quarantined", why, remedy)
    if state in ("Idle", "Spawning"):
        return STARTING
    if state == "Running":
        return None
    return ErrorPanel("has been stopped", why)


def unresponsive(seconds: float) -> ErrorPanel:
    remedy = "It may come back by itself: then its screen does, too."
    return ErrorPanel("is unresponsive", f"It runs, but has drawn no frame for {seconds:.0f} s.", remedy)


def panel(name: str, trouble: ErrorPanel, stderr: Sequence[str], width: int, height: int) -> list[Row]:
    """The trouble as rows, as many as there are; the last words first to be left out."""
    rows = [line("", width), line(f"  {escape_controls(name)} {trouble.title}", width, modifier=BOLD, fg=RED)]
    # A plugin's words may be megabytes: wrapping them would hold up everything and leave the rest no room.
    room = width * height // 3
    for paragraph in (trouble.why, trouble.remedy):
        for text in _wrapped(escape_controls(paragraph[:room])[:room], max(width - 4, 10)):
            rows += [line(f"  {text}", width)]
    if trouble.restartable:
        rows += [line("", width), line("  Press r to end it and start it anew.", width, modifier=BOLD)]
    if stderr:
        rows += [line("", width), line("  its last words on stderr:", width, modifier=DIM)]
        rows += [
            line(f"    {escape_controls(text[:width])}", width, modifier=DIM) for text in stderr[-LAST_LINES:]
        ]
    rows += [line("", width)] * (height - len(rows))
    return rows[:height]


def _wrapped(text: str, width: int) -> list[str]:
    """textwrap counts characters: one that is two columns wide is counted with something behind it."""
    counted = "".join(symbol + "\0" * (columns - 1) for symbol, columns in columns_of(text))
    return [each.replace("\0", "") for each in textwrap.wrap(counted, width)]
