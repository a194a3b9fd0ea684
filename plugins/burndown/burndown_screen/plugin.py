"""What a host sees of burndown."""

from __future__ import annotations

import msgspec

from burndown_screen import command
from burndown_screen.command import REFRESH
from burndown_screen.frame import paint
from burndown_screen.inbox import Inbox
from burndown_screen.view import View
from plughost_sdk import ainb

HARD = msgspec.msgpack.encode({"hard": True})


def make(manifest: str | None = None) -> ainb.Plugin:
    plugin = ainb.Plugin(manifest)
    inbox, view = Inbox(), View()

    @plugin.on_init
    def ask() -> None:
        """What was published before is gone but for its last chunk."""
        plugin.host.snapshot.publish(REFRESH, b"")

    @plugin.on_chunk("sessions.usage_data")
    def usage(chunk: ainb.Chunk | ainb.Mismatch) -> None:
        inbox.take(chunk)

    @plugin.on("sessions.scan_progress")
    def progress(payload: bytes) -> None:
        inbox.told(payload)

    @plugin.screen
    def draw(width: int, height: int) -> ainb.Buffer:
        return paint(inbox, view, width, height)

    @plugin.on_key
    def key(key: ainb.Key) -> None:
        wanted = view.press(key, inbox.usage)
        if wanted is not None:
            plugin.host.snapshot.publish(REFRESH, b"" if wanted == "refresh" else HARD)

    @plugin.cli("usage")
    def usage_command(argv: list[str]) -> int:
        return command.run(plugin, inbox, argv)

    return plugin
