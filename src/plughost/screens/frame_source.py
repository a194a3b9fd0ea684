"""The frame source of one plugin: requests frames while somebody watches, one at a time, and shows an error
panel when there are none."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import NamedTuple, Protocol

from plughost.contracts.ainb.client import RENDER_DEADLINE
from plughost.contracts.ainb.messages import KeyEvent, MouseEvent, RenderResult
from plughost.errors import PluginError, Timeout
from plughost.screens.frame_rate import IDLE, FrameRate, missed_frames
from plughost.screens.render import Rendering, Row, render
from plughost.screens.screen_plugin import ScreenPlugin
from plughost.screens.terminal.error_panel import (
    FAILED,
    RESTARTING,
    STARTING,
    ErrorPanel,
    panel_for_state,
    panel_rows,
    unresponsive_panel,
)


class ScreenView(NamedTuple):
    """What to display: a frame, or an error panel."""

    rows: Sequence[Row]
    changed: Sequence[int] | None
    """The rows that differ from the view before; None when there is nothing to compare with."""


class Viewer(Protocol):
    """Displays frames."""

    def viewport(self) -> tuple[int, int]:
        """The size of the viewport, in columns and rows."""

    def accepts_frames(self) -> bool:
        """Whether a frame would be drawn soon; frames that are due meanwhile are dropped."""

    def show_view(self, screen_view: ScreenView) -> None: ...


class FrameSource:
    """The frames of one plugin, shared by all of its screens: a frame does not name its screen, and one
    request is in flight at a time."""

    def __init__(self, plugin: ScreenPlugin, rate: float = 30.0, deadline: float = RENDER_DEADLINE) -> None:
        self.name = plugin.name
        self.frames = 0
        self.dropped = 0
        self.took = 0.0
        """Seconds from the request of the last frame until it was drawn."""
        self.error_panel: ErrorPanel | None = STARTING
        """The error panel that is shown instead of a frame; None while there are frames."""
        self._plugin = plugin
        self._frame_rate = FrameRate(rate)
        self._deadline = deadline
        self._clock = asyncio.get_running_loop().time
        self._woken = asyncio.Event()
        self._failure = ""
        """Why the last start or restart failed."""
        self._rendering: Rendering | None = None
        self._last_frame_at = 0.0
        self._starting: asyncio.Task[None] | None = None
        self._restarting: asyncio.Task[None] | None = None

    @property
    def state(self) -> str:
        """The plugin's lifecycle state, or Unresponsive, which only a screen can tell."""
        return "Unresponsive" if self._is_hung else self._plugin.state

    @property
    def _is_hung(self) -> bool:
        return self._plugin.state == "Running" and self._plugin.view.unresponsive

    # Input

    def key(self, screen: str, key: KeyEvent) -> bool:
        """Send a key event ahead of all waiting calls; False when it was not sent."""
        self.wake()
        return self._plugin.view.key(screen, key)

    def mouse(self, screen: str, mouse: MouseEvent) -> bool:
        """Send a mouse event, like `key`."""
        self.wake()
        return self._plugin.view.mouse(screen, mouse)

    def wake(self) -> None:
        """The next frame is due at once: something has changed for the plugin."""
        self._frame_rate.wake()
        self._woken.set()

    def restart(self) -> None:
        """End the plugin and start it with a clean failure history."""
        if not self._is_restarting:
            self._restarting = asyncio.ensure_future(self._restart())
            self._woken.set()

    @property
    def _is_restarting(self) -> bool:
        return self._restarting is not None and not self._restarting.done()

    async def _restart(self) -> None:
        try:
            await self._plugin.restart()
        except PluginError as error:
            self._failure = error.message
        self.wake()

    def kill_if_hung(self) -> None:
        """Kill a plugin of our own if it is unresponsive: there is no point in waiting for its shutdown."""
        if self._is_hung:
            self._plugin.kill_if_own()

    async def close(self) -> None:
        """Cancel a start or restart in progress."""
        tasks = [task for task in (self._starting, self._restarting) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def follow(self) -> None:
        """Wake up whenever the plugin's state has changed. Raises when its host is lost."""
        await self._plugin.follow(self._woken.set)

    # Frames

    async def watch(self, viewer: Viewer) -> None:
        """Show frames to this viewer, until cancelled."""
        self._rendering = None
        self._last_frame_at = due = self._clock()
        with self._plugin.shown():
            while True:
                self._woken.clear()
                wait = self._frame_rate.interval
                if viewer.accepts_frames():
                    wait = await self._show_next(viewer)
                else:
                    self.dropped += 1
                due = await self._wait_for_next(due, wait)

    async def _show_next(self, viewer: Viewer) -> float:
        """Show one frame, or an error panel; returns the seconds until the next one."""
        width, height = viewer.viewport()
        if not (width and height):
            return IDLE
        error_panel = self._panel_for_state(self._failure)
        if error_panel is None:
            started = self._clock()
            try:
                result = await self._plugin.view.render(width, height, deadline=self._deadline)
                return self._show_frame(result, width, height, viewer, started)
            except Timeout:
                error_panel = unresponsive_panel(self._clock() - self._last_frame_at)
            except PluginError as error:
                error_panel = self._panel_for_state(error.message) or ErrorPanel(
                    "gave no frame", error.message, error.hint
                )
            self.dropped += missed_frames(self._clock() - started, self._frame_rate.interval)
        self.error_panel = error_panel
        self._rendering = None
        stderr = await self._plugin.stderr_tail()
        viewer.show_view(ScreenView(panel_rows(self.name, error_panel, stderr, width, height), None))
        if error_panel is STARTING:
            self._last_frame_at = self._clock()
            self._start()
        return IDLE

    def _panel_for_state(self, why: str) -> ErrorPanel | None:
        if self._is_restarting:
            return RESTARTING
        state = self._plugin.state
        return panel_for_state(state, self._plugin.failure if state in FAILED else why)

    def _show_frame(
        self, result: RenderResult, width: int, height: int, viewer: Viewer, started: float
    ) -> float:
        rendering = render(result.buffer, width, height, self._rendering)
        viewer.show_view(ScreenView(rendering.rows, None if self._rendering is None else rendering.changed))
        self._rendering = rendering
        self.error_panel = None
        self._failure = ""
        self.frames += 1
        self._last_frame_at = self._clock()
        self.took = self._last_frame_at - started
        self.dropped += missed_frames(self.took, self._frame_rate.interval)
        return self._frame_rate.after(changed=bool(rendering.changed), redraw=result.redraw)

    async def _wait_for_next(self, due: float, wait: float) -> float:
        """Wait until the next frame is due, or less when something has happened; returns the time of the next
        frame.

        There is at least one interval between two frames, but a frame that is a little late does not delay
        the others.
        """
        soonest = max(due + self._frame_rate.interval, self._clock())
        await asyncio.sleep(soonest - self._clock())
        if wait <= self._frame_rate.interval:
            return soonest
        try:
            async with asyncio.timeout_at(due + wait):
                await self._woken.wait()
        except TimeoutError:
            pass
        return self._clock()

    def _start(self) -> None:
        if self._starting is None or self._starting.done():
            self._starting = asyncio.ensure_future(self._start_plugin())

    async def _start_plugin(self) -> None:
        try:
            await self._plugin.start()
        except PluginError as error:
            self._failure = error.message
        self._woken.set()
