"""The widget with the plugin's screen: passes keys, pastes and the mouse on to the plugin."""

from __future__ import annotations

from textual import events

from plughost.screens.terminal.chrome import TabLabel
from plughost.screens.terminal.input_events import key_event, mouse_event, paste_events
from plughost.screens.terminal.row_widget import Rows


class ScreenWidget(Rows, can_focus=True):
    """Shows the chosen tab's frames. While an error panel is shown, `r` restarts the plugin."""

    def __init__(self) -> None:
        super().__init__("canvas")
        self.tab: TabLabel | None = None
        self._pressed_buttons: set[int] = set()

    def on_key(self, event: events.Key) -> None:
        event.stop()
        event.prevent_default()
        if self.tab is None:
            return
        error_panel = self.tab.source.error_panel
        if event.key == "r" and error_panel is not None and error_panel.restartable:
            self.tab.source.restart()
            return
        key = key_event(event.key, event.character)
        if key is not None:
            self.tab.source.key(self.tab.screen, key)

    def on_paste(self, event: events.Paste) -> None:
        event.stop()
        if self.tab is not None:
            for key in paste_events(event.text):
                self.tab.source.key(self.tab.screen, key)

    def on_mouse_down(self, event: events.MouseDown) -> None:
        """Capture the mouse: a drag and the release belong here, too, wherever the mouse is by then."""
        self._pressed_buttons.add(event.button)
        self.capture_mouse()
        self._send_mouse(event)

    def on_mouse_up(self, event: events.MouseUp) -> None:
        self._forget_buttons(event.button)
        self._send_mouse(event)

    def on_mouse_move(self, event: events.MouseMove) -> None:
        if not event.button:  # a release that was not reported
            self._forget_buttons(*self._pressed_buttons)
        self._send_mouse(event)

    def _forget_buttons(self, *buttons: int) -> None:
        self._pressed_buttons.difference_update(buttons)
        if not self._pressed_buttons:
            self.release_mouse()

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        self._send_mouse(event)

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        self._send_mouse(event)

    def on_mouse_scroll_left(self, event: events.MouseScrollLeft) -> None:
        self._send_mouse(event)

    def on_mouse_scroll_right(self, event: events.MouseScrollRight) -> None:
        self._send_mouse(event)

    def _send_mouse(self, event: events.MouseEvent) -> None:
        event.stop()
        if self.tab is None:
            return
        kind = type(event).__name__
        x = max(0, min(int(event.x), self.size.width - 1))  # a drag may leave the plugin's cells
        y = max(0, min(int(event.y), self.size.height - 1))
        modifiers = {"shift": event.shift, "ctrl": event.ctrl, "meta": event.meta}
        mouse = mouse_event(kind, event.button, x, y, **modifiers)
        if mouse is not None:
            self.tab.source.mouse(self.tab.screen, mouse)

    def on_resize(self) -> None:
        if self.tab is not None:
            self.tab.source.wake()
