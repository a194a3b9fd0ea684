"""The Textual app: tabs at the top, a status line at the bottom, and a plugin's screen in between."""

from __future__ import annotations

import asyncio
import select
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from textual import events
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.screen import Screen
from textual.widget import Widget

from plughost.screens.frame_source import ScreenView
from plughost.screens.terminal.chrome import TabLabel, status_line, tab_columns, tab_line
from plughost.screens.terminal.driver import STDERR, TerminalDriver
from plughost.screens.terminal.row_widget import Rows
from plughost.screens.terminal.screen_widget import ScreenWidget

STATUS_PERIOD = 0.25


class TabLine(Rows):
    """The row of tabs; a click chooses one."""

    def on_click(self, event: events.Click) -> None:
        app = self.app
        assert isinstance(app, ScreenApp)
        app.choose_at(int(event.x))


class MainScreen(Screen[None]):
    """The only Textual screen. Textual drops the focus when somebody clicks where there is no widget, and
    keys would be lost then: here the focus stays."""

    def set_focus(
        self, widget: Widget | None, scroll_visible: bool = True, from_app_focus: bool = False
    ) -> None:
        if widget is not None:
            super().set_focus(widget, scroll_visible, from_app_focus)


class ScreenApp(App[None]):
    """Shows the chosen plugin screen; only that one is drawn."""

    CSS = "Screen { overflow: hidden; } #tabs, #status { height: 1; } #canvas { height: 1fr; }"
    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+q", "quit", priority=True),
        Binding("ctrl+pagedown", "turn(1)", priority=True),
        Binding("ctrl+pageup", "turn(-1)", priority=True),
    ]

    def __init__(self, tabs: Sequence[TabLabel], hang_up: Callable[[], None] = lambda: None) -> None:
        """`hang_up` is called once the terminal is gone."""
        super().__init__(driver_class=TerminalDriver)
        self._hang_up = hang_up
        self._screens = tabs
        self._chosen = 0
        self._width = 0
        self._watching: asyncio.Task[None] | None = None
        self._last_sample = (0, 0.0)
        self._rate = 0.0
        self._screen_widget = ScreenWidget()
        self._terminal = select.poll()
        self._terminal.register(STDERR, select.POLLOUT)
        self._status = Rows("status")

    def get_default_screen(self) -> MainScreen:
        return MainScreen(id="_default")

    def compose(self) -> ComposeResult:
        if len(self._screens) > 1:
            yield TabLine("tabs")
        yield self._screen_widget
        yield self._status

    def on_mount(self) -> None:
        self._screen_widget.focus()
        self.set_interval(STATUS_PERIOD, self._update_status)
        self.call_after_refresh(self._choose, 0)

    def action_turn(self, by: int) -> None:
        self._choose((self._chosen + by) % len(self._screens))

    def choose_at(self, x: int) -> None:
        """Choose the tab at this column."""
        for number, (start, end) in tab_columns(self._screens, self._chosen, self._width).items():
            if start <= x < end:
                self._choose(number)

    def _choose(self, number: int) -> None:
        """Show another tab: only the chosen screen is drawn."""
        self._stop_watching()
        self._chosen = number
        tab = self._screen_widget.tab = self._screens[number]
        self._last_sample = (tab.source.frames, asyncio.get_running_loop().time())
        self._watching = asyncio.create_task(tab.source.watch(self))
        self._watching.add_done_callback(self._watch_done)
        self._show_tabs()
        self._update_status()

    def _watch_done(self, task: asyncio.Task[None]) -> None:
        """Report the failure of the watching task: it never ends by itself except by a bug."""
        if not task.cancelled() and (error := task.exception()) is not None:
            self._handle_exception(error)  # type: ignore[arg-type]

    def viewport(self) -> tuple[int, int]:
        """The size of the viewport, in columns and rows."""
        return self._screen_widget.size.width, self._screen_widget.size.height

    def show_view(self, screen_view: ScreenView) -> None:
        """Show a frame or an error panel."""
        self._screen_widget.show(screen_view.rows, screen_view.changed)

    def accepts_frames(self) -> bool:
        """Whether the terminal can be written to: if not, a write would block."""
        if self.is_headless:
            return True
        ready = dict(self._terminal.poll(0)).get(STDERR, 0)
        if ready & (select.POLLHUP | select.POLLERR):
            self._hang_up()
        return bool(ready & select.POLLOUT)

    def on_resize(self, event: events.Resize) -> None:
        """Lay out again. The app's own size is still the old one here."""
        self._width = event.size.width
        self._show_tabs()
        self._update_status()

    def _show_tabs(self) -> None:
        if len(self._screens) > 1:
            self.query_one("#tabs", TabLine).show([tab_line(self._screens, self._chosen, self._width)])

    def _update_status(self) -> None:
        if not self.accepts_frames():
            return
        source = self._screens[self._chosen].source
        frames, at = self._last_sample
        now = asyncio.get_running_loop().time()
        if now - at >= STATUS_PERIOD:
            self._rate = (source.frames - frames) / (now - at)
            self._last_sample = (source.frames, now)
        self._status.show([status_line(self._screens, self._chosen, self._rate, self._width)])

    @property
    def terminal(self) -> TerminalDriver | None:
        """The terminal driver; None before it is created, and when headless."""
        return self._driver if isinstance(self._driver, TerminalDriver) else None

    def panic(self, *renderables: Any) -> None:
        """Exit with an error code after a bug, ours or Textual's: nobody shall take it for a normal exit."""
        super().panic(*renderables)
        self._return_code = self._return_code or 1

    def exit(self, *what: Any, **more: Any) -> None:
        """Stop drawing before exiting: the terminal is about to be handed back."""
        self._stop_watching()
        super().exit(*what, **more)

    def on_unmount(self) -> None:
        self._stop_watching()

    def _stop_watching(self) -> None:
        if self._watching is not None:
            self._watching.cancel()
