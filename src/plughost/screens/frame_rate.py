"""The frame rate policy: when the next frame is due. Soon while something changes, seldom while nothing
does."""

from __future__ import annotations

IDLE = 0.2
"""Seconds between two frames while nothing changes: the effect of an event is seen no later."""
STILL = 10
"""So many equal frames in a row count as nothing changing."""
MOST_REDRAWS = 600
"""How often in a row a plugin may ask for another frame, until a person does something."""


class FrameRate:
    """Computes the time to the next frame from what the last frames were like; `rate` is in frames per
    second."""

    def __init__(self, rate: float) -> None:
        self.interval = 1 / rate
        self._still = 0
        self._redraws = 0

    def wake(self) -> None:
        """Go back to the full rate: a key, the mouse or a new size may change the screen."""
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
    """How many frames were due while another one was still being drawn."""
    return max(int(took / interval), 0)
