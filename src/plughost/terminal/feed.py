"""The frames of one plugin: asked for while somebody looks, one at a time; or why there are none."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import NamedTuple

from plughost.base.errors import PluginError, Timeout
from plughost.base.events import Event, Exited, StateChanged
from plughost.contracts.ainb import Ainb
from plughost.contracts.ainb.messages import KeyEvent, MouseEvent
from plughost.contracts.ainb.view import RENDER_DEADLINE
from plughost.contracts.contract import PluginSpec
from plughost.host import Host
from plughost.plugin import Plugin
from plughost.terminal.pace import IDLE, Pace, missed
from plughost.terminal.painter import Painting, Row, paint
from plughost.terminal.panel import FAILED, STARTING, Trouble, of_state, panel, unresponsive

Size = tuple[int, int]


class Sight(NamedTuple):
    rows: Sequence[Row]
    changed: Sequence[int] | None
    """The rows that are not as they were; None when there is nothing to compare with."""


class Feed:
    """One plugin's screens draw from one feed: a frame names no screen, and one is in flight at a time."""

    def __init__(
        self, host: Host, plugin: Plugin, rate: float = 30.0, deadline: float = RENDER_DEADLINE
    ) -> None:
        self.name = plugin.name
        self.frames = 0
        self.dropped = 0
        self.took = 0.0
        """Seconds from asking for the last frame until it was painted."""
        self.trouble: Trouble | None = STARTING
        self._host = host
        self._spec: PluginSpec = plugin.spec
        self._plugin = plugin
        self._view = Ainb(plugin)
        self._pace = Pace(rate)
        self._deadline = deadline
        self._woken = asyncio.Event()
        self._why = ""
        self._painting: Painting | None = None
        self._drawn_at = 0.0
        self._starting: asyncio.Task[None] | None = None
        self._restarting: asyncio.Task[None] | None = None

    @property
    def state(self) -> str:
        """In the words of the lifecycle, but for one that only a screen knows."""
        return "Unresponsive" if self.hangs else self._plugin.state

    @property
    def hangs(self) -> bool:
        return self._plugin.state == "Running" and self._view.unresponsive

    # What people do

    def key(self, screen: str, key: KeyEvent) -> bool:
        """Past everything that waits; False when nobody is there to get it."""
        self._stir()
        return self._view.key(screen, key)

    def mouse(self, screen: str, mouse: MouseEvent) -> bool:
        self._stir()
        return self._view.mouse(screen, mouse)

    def _stir(self) -> None:
        self._pace.stir()
        self._woken.set()

    def resized(self) -> None:
        self._stir()

    def restart(self) -> None:
        """End it by force, and start it as if it had never failed."""
        if self._restarting is None or self._restarting.done():
            self._restarting = asyncio.ensure_future(self._restart())

    async def _restart(self) -> None:
        try:
            if self.name in self._host.plugins:
                self._plugin.kill()
                await self._host.remove(self.name)
            self._plugin = await self._host.add(self._spec, start=False)
            self._view = Ainb(self._plugin)
            self._why = ""
        except PluginError as error:
            self._why = error.message
        self._stir()

    # What the host tells

    def happened(self, event: Event) -> None:
        if event.plugin == self.name and isinstance(event, StateChanged | Exited):
            if isinstance(event, StateChanged) and event.new in FAILED:
                self._why = event.why
            self._woken.set()

    def kill_if_hung(self) -> None:
        """Nobody waits for it to say goodbye."""
        if self.hangs:
            self._plugin.kill()

    # What is seen

    async def watch(
        self, size: Callable[[], Size], show: Callable[[Sight], None], ready: Callable[[], bool]
    ) -> None:
        """Show what there is to see until cancelled. Frames that are due while not `ready` are dropped."""
        self._painting = None
        clock = asyncio.get_running_loop().time
        self._drawn_at = due = clock()
        while True:
            view = self._view
            with view.shown():
                while view is self._view:
                    self._woken.clear()
                    wait = self._pace.interval
                    if ready():
                        wait = await self._show(*size(), show, clock)
                    else:
                        self.dropped += 1
                    due = await self._rest(due, wait, clock)

    async def _show(
        self, width: int, height: int, show: Callable[[Sight], None], clock: Callable[[], float]
    ) -> float:
        """Show one frame, or why there is none; how long that is good for."""
        self.trouble = of_state(self._plugin.state, self._why)
        if self.trouble is None and width and height:
            began = clock()
            try:
                result = await self._view.render(width, height, deadline=self._deadline)
            except Timeout:
                self.trouble = unresponsive(clock() - self._drawn_at)
            except PluginError as error:
                self.trouble = of_state(self._plugin.state, error.message) or Trouble(
                    "gave no frame", error.message, error.hint
                )
            else:
                painting = paint(result.buffer, width, height, self._painting)
                show(Sight(painting.rows, None if self._painting is None else painting.changed))
                self._painting = painting
                self._drawn_at = clock()
                self.took = self._drawn_at - began
                self.frames += 1
                self.dropped += missed(self.took, self._pace.interval)
                return self._pace.after(changed=bool(painting.changed), redraw=result.redraw)
            self.dropped += missed(clock() - began, self._pace.interval)
        if self.trouble is not None:
            self._painting = None
            show(Sight(panel(self.name, self.trouble, self._stderr(), width, height), None))
        if self.trouble is STARTING:
            self._drawn_at = clock()
            self._start()
        return IDLE

    async def _rest(self, due: float, wait: float, clock: Callable[[], float]) -> float:
        """Until the next frame is due, or sooner when something has happened; when that was.

        Between two frames is an interval at least, but one that is a little late does not put off the others.
        """
        soonest = max(due + self._pace.interval, clock())
        await asyncio.sleep(soonest - clock())
        if wait > self._pace.interval:
            try:
                async with asyncio.timeout_at(due + wait):
                    await self._woken.wait()
            except TimeoutError:
                pass
            return clock()
        return soonest

    def _start(self) -> None:
        if self._starting is None or self._starting.done():
            self._starting = asyncio.ensure_future(self._started(self._plugin))

    async def _started(self, plugin: Plugin) -> None:
        try:
            await plugin.start()
        except PluginError as error:
            self._why = error.message
        self._woken.set()

    def _stderr(self) -> list[str]:
        said = self._host.service("logs").recent(self.name)
        return [line.message for line in said if line.source == "stderr"]

    async def close(self) -> None:
        """Give up what is under way."""
        tasks = [task for task in (self._starting, self._restarting) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
