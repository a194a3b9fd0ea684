"""The error panel that is shown instead of a plugin's screen while there is no frame."""

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
    """Why there is no frame, as text for people."""

    title: str
    why: str = ""
    remedy: str = ""
    restartable: bool = True
    """Whether to offer the key that kills and restarts the plugin."""


FAILED = ("Backoff", "Quarantined", "NotAdded")
"""States that follow a failure."""
STARTING = ErrorPanel("is starting", restartable=False)
RESTARTING = ErrorPanel("is restarting", restartable=False)


def panel_for_state(state: str, why: str) -> ErrorPanel | None:
    """The error panel for a plugin's state; None when it can draw frames."""
    if state == "Backoff":
        return ErrorPanel("has crashed", why, "The host starts it again by itself, a little later each time.")
    if state == "Quarantined":
        remedy = "The host does not restart it again by itself. Fix it, then restart it."
        return ErrorPanel("is quarantined", why, remedy)
    if state == "NotAdded":
        return ErrorPanel("could not be added", why, "Fix it, then restart it.")
    if state in ("Idle", "Spawning"):
        return STARTING
    if state == "Running":
        return None
    return ErrorPanel("has been stopped", why)


def unresponsive_panel(seconds: float) -> ErrorPanel:
    """The error panel for a plugin that has not drawn a frame for so many seconds."""
    remedy = "Its screen returns as soon as the plugin draws again."
    return ErrorPanel("is unresponsive", f"It runs, but has drawn no frame for {seconds:.0f} s.", remedy)


def panel_rows(
    name: str, error_panel: ErrorPanel, stderr: Sequence[str], width: int, height: int
) -> list[Row]:
    """The panel as `height` rows; the stderr lines are cut first."""
    rows = [
        line("", width),
        line(f"  {escape_controls(name)} {error_panel.title}", width, modifier=BOLD, fg=RED),
    ]
    # A message may have megabytes: wrapping it would block the event loop and leave no room for the rest.
    most_characters = width * height // 3
    for paragraph in (error_panel.why, error_panel.remedy):
        for text in _wrapped(
            escape_controls(paragraph[:most_characters])[:most_characters], max(width - 4, 10)
        ):
            rows += [line(f"  {text}", width)]
    if error_panel.restartable:
        rows += [line("", width), line("  Press r to restart it.", width, modifier=BOLD)]
    if stderr:
        rows += [line("", width), line("  its last lines on stderr:", width, modifier=DIM)]
        rows += [
            line(f"    {escape_controls(text[:width])}", width, modifier=DIM) for text in stderr[-LAST_LINES:]
        ]
    rows += [line("", width)] * (height - len(rows))
    return rows[:height]


def _wrapped(text: str, width: int) -> list[str]:
    """Wrap text. textwrap counts characters, so a character of two columns is padded while it counts."""
    counted = "".join(symbol + "\0" * (columns - 1) for symbol, columns in columns_of(text))
    return [each.replace("\0", "") for each in textwrap.wrap(counted, width)]
