"""The frame log of `plughost dev`: direction, method, size and response time of each frame."""

from __future__ import annotations

import time
from typing import Any

import msgspec

from plughost._util.text import TruncatedText, head_of_bytes
from plughost.cli.ui.dev_output import DevOutput
from plughost.engine.io.tap import Direction, Listener, Origin
from plughost.testing.frame_splitter import FrameSplitter, UnreadableTraffic, id_of, method_of, value
from plughost.wire.framing import HEAD, Frame, FrameError

SHOWN = 500
"""Bytes of a frame that are shown to people."""
WHOLE = 64 << 10
"""Bytes of the largest frame that is shown whole to programs."""
MOST_OPEN = 10_000
ARROWS: dict[Direction, str] = {"out": "→", "in": "←"}


class FrameLog:
    """A tap that shows frames: `Host(tap=FrameLog(screen))`."""

    def __init__(self, screen: DevOutput) -> None:
        self._screen = screen

    def __call__(self, origin: Origin) -> Listener:
        splitter = FrameSplitter(origin.framing)
        asked: dict[tuple[Direction, Any], tuple[float, str]] = {}

        def listen(way: Direction, data: bytes) -> None:
            now = time.monotonic()
            for frame in splitter.feed(way, data):
                if isinstance(frame, FrameError):
                    self._broken(origin, way, frame)
                else:
                    self._frame(origin, way, frame, now, asked)

        return listen

    def _broken(self, origin: Origin, way: Direction, error: FrameError) -> None:
        head = head_of_bytes(error.head, HEAD - 1)  # it has been cut there, if it is as long as that
        words = f"{origin.plugin} {ARROWS[way]} not a frame: {error.message}:"
        about = {"plugin": origin.plugin, "way": way, "why": error.message, "head": head}
        self._screen.show("no_frame", words, shorten(error.head), **about)

    def _frame(
        self,
        origin: Origin,
        way: Direction,
        frame: Frame,
        now: float,
        asked: dict[tuple[Direction, Any], tuple[float, str]],
    ) -> None:
        decoded = value(frame) if len(frame) <= WHOLE else _outline(frame)
        number, method = id_of(decoded), method_of(decoded)
        took = None
        if method is not None:
            if number is not None and len(asked) < MOST_OPEN:
                asked[way, number] = now, method
        elif (request := asked.pop(("in" if way == "out" else "out", number), None)) is not None:
            took, method = (now - request[0]) * 1000, request[1]
        about = [
            origin.plugin,
            ARROWS[way],
            method or "",
            f"#{number}" if number is not None else "",
            f"{len(frame)} B",
            f"{took:.1f} ms" if took is not None else "",
        ]
        whole = decoded is not UnreadableTraffic and len(frame) <= WHOLE
        self._screen.show(
            "frame",
            " ".join(filter(None, about)),
            shorten(frame),
            plugin=origin.plugin,
            generation=origin.generation,
            way=way,
            method=method,
            id=number,
            size=len(frame),
            ms=took,
            **({"frame": decoded} if whole else {"text": shorten(frame)}),
        )


def shorten(text: Frame) -> TruncatedText:
    """The beginning of a frame, for people."""
    return head_of_bytes(text, SHOWN)


def readable(json: bytes | msgspec.Raw) -> Any:
    """The decoded value; the beginning of the text when it is not JSON or too large."""
    decoded = value(bytes(json)) if len(bytes(json)) <= WHOLE else UnreadableTraffic
    return shorten(bytes(json)) if decoded is UnreadableTraffic else decoded


def _outline(frame: Frame) -> Any:
    """The small members of a large frame, which identify it."""
    try:
        members = msgspec.json.decode(frame, type=dict[str, msgspec.Raw])
    except (ValueError, RecursionError):
        return UnreadableTraffic
    return {name: value(bytes(raw)) for name, raw in members.items() if len(bytes(raw)) <= SHOWN}
