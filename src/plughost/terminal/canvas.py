"""The shown plugin's screen: it gets what is typed, and what the mouse does there."""

from __future__ import annotations

from textual import events

from plughost.terminal.inputs import key_event, mouse_event, pasted
from plughost.terminal.lines import Tab
from plughost.terminal.rows import Rows


class Canvas(Rows, can_focus=True):
    def __init__(self) -> None:
        super().__init__("canvas")
        self.tab: Tab | None = None

    def on_key(self, event: events.Key) -> None:
        event.stop()
        event.prevent_default()
        if self.tab is None:
            return
        trouble = self.tab.feed.trouble
        if event.key == "r" and trouble is not None and trouble.restartable:
            self.tab.feed.restart()
            return
        key = key_event(event.key, event.character)
        if key is not None:
            self.tab.feed.key(self.tab.screen, key)

    def on_paste(self, event: events.Paste) -> None:
        event.stop()
        if self.tab is not None:
            for key in pasted(event.text):
                self.tab.feed.key(self.tab.screen, key)

    def on_mouse_down(self, event: events.MouseDown) -> None:
        self._mouse(event)

    def on_mouse_up(self, event: events.MouseUp) -> None:
        self._mouse(event)

    def on_mouse_move(self, event: events.MouseMove) -> None:
        self._mouse(event)

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        self._mouse(event)

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        self._mouse(event)

    def on_mouse_scroll_left(self, event: events.MouseScrollLeft) -> None:
        self._mouse(event)

    def on_mouse_scroll_right(self, event: events.MouseScrollRight) -> None:
        self._mouse(event)

    def _mouse(self, event: events.MouseEvent) -> None:
        event.stop()
        if self.tab is None:
            return
        kind, x, y = type(event).__name__, int(event.x), int(event.y)
        held = {"shift": event.shift, "ctrl": event.ctrl, "meta": event.meta}
        mouse = mouse_event(kind, event.button, x, y, **held)
        if mouse is not None:
            self.tab.feed.mouse(self.tab.screen, mouse)

    def on_resize(self) -> None:
        if self.tab is not None:
            self.tab.feed.stir()
