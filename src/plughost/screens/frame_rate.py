"""When the next frame is due: soon while something moves, seldom while nothing does."""

from __future__ import annotations

IDLE = 0.2
"""Seconds between two frames that are alike: what an event has changed is seen no later."""
STILL = 10
"""So many frames alike, and nothing is taken to move."""
MOST_REDRAWS = 600
"""A plugin that asks for another frame is believed so often, until a person does something."""


class FrameRate:
    def __init__(self, rate: float) -> None:
        self.interval = 1 / rate
        self._still = 0
        self._redraws = 0

    def wake(self) -> None:
        """Somebody has pressed a key, moved the mouse, changed the size."""
        self._still = self._redraws = 0

    def after(self, *, changed: bool, redraw: bool) -> float:
        """Seconds from the beginning of this frame to that of the next one."""
        self._redraws = self._redraws + 1 if redraw else 0
        if changed or (redraw and self._redraws <= MOST_REDRAWS):
            self._still = 0
        else:
            self._still += 1
        return self.interval if self._still < STILL else max(IDLE, self.interval)


def missed_frames(took: float, interval: float) -> int:
    """Frames that were due while another one was still being drawn."""
    return max(int(took / interval), 0)
