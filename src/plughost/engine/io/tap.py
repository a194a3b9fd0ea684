"""Taps: observers of every byte between the host and a process, such as a recorder."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable
from typing import Any, Literal

import msgspec

Direction = Literal["out", "in"]
Listener = Callable[[Direction, bytes], object]
"""Called with bytes after they were written `out` to a process, and before those that came `in` are
decoded."""


class Origin(msgspec.Struct, frozen=True):
    """The process whose bytes a tap sees: its plugin, contract, framing and generation."""

    plugin: str
    contract: str
    framing: str
    """The name of its framing class, for decoding the bytes."""
    generation: int = 1


Tap = Callable[[Origin], Listener | None]
"""Called for each new process; returns a listener for its bytes, or None."""


class Tapping:
    """The tap on the processes of one instance. An exception in a listener never reaches the conversation."""

    __slots__ = ("_loop", "_origin", "_tap")

    def __init__(self, tap: Tap, origin: Origin, loop: asyncio.AbstractEventLoop) -> None:
        self._tap = tap
        self._origin = origin
        self._loop = loop

    def wrap(
        self, on_data: Callable[[bytes], None]
    ) -> tuple[Callable[[bytes], None], Callable[[bytes], None] | None]:
        """The callbacks of a new link, for bytes that came in and for bytes that were sent, with a listener
        in them."""
        listener = self._guarded(self._tap)(self._origin)
        if listener is None:
            return on_data, None
        listen = self._guarded(listener)

        def receive(data: bytes) -> None:
            listen("in", data)
            on_data(data)

        return receive, functools.partial(listen, "out")

    def _guarded(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def guarded(*arguments: Any) -> Any:
            try:
                return function(*arguments)
            except Exception as error:
                self._loop.call_exception_handler(
                    {"message": f"the tap on {self._origin.plugin} failed", "exception": error}
                )
                return None

        return guarded
