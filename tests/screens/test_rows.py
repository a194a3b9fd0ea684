"""A widget of rows: what Textual has not painted is asked for again."""

from __future__ import annotations

from textual.app import App, ComposeResult

from plughost.screens.render import line
from plughost.screens.terminal.row_widget import Rows


class OneWidget(App[None]):
    def compose(self) -> ComposeResult:
        yield Rows("rows")


async def test_rows_that_were_never_painted_are_painted_with_the_next_frame_though_none_has_changed(
    monkeypatch,
):
    """Textual drops what it is asked to paint before it has a layout; the screen stayed blank then."""
    async with OneWidget().run_test(size=(20, 4)) as pilot:
        rows = pilot.app.query_one(Rows)
        await pilot.pause()
        asked = []
        with monkeypatch.context() as dropping:
            dropping.setattr(rows, "refresh", lambda: asked.append("dropped"))
            rows.show([line("hello", rows.size.width)] * rows.size.height)
            rows.show([line("hello", rows.size.width)] * rows.size.height, ())
        assert len(asked) == 2
        rows.show([line("hello", rows.size.width)] * rows.size.height, ())
        await pilot.pause()
        assert rows._is_painted
        monkeypatch.setattr(rows, "refresh", lambda: asked.append("again"))
        rows.show([line("hello", rows.size.width)] * rows.size.height, ())
        assert len(asked) == 2, "painted, and nothing has changed"
