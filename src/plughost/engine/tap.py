"""Every byte between the host and a process, seen by somebody else on its way."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from typing import Any, Literal

import msgspec

from plughost.engine.channel import Send

Way = Literal["out", "in"]
Listener = Callable[[Way, bytes], object]
"""Told of bytes once they have gone `out` to a process, and before what came `in` from it is looked at."""


class Origin(msgspec.Struct, frozen=True):
    """Whose bytes they are."""

    plugin: str
    contract: str
    framing: str
    """The class of its framing, for whoever takes the bytes apart."""
    generation: int = 1


Tap = Callable[[Origin], Listener | None]
"""Asked for a listener whenever a process is started; None listens to nothing."""


class Tapping:
    """A tap on the processes of one instance. A listener's own fault never reaches the conversation."""

    __slots__ = ("_loop", "_origin", "_tap")

    def __init__(self, tap: Tap, origin: Origin, loop: asyncio.AbstractEventLoop) -> None:
        self._tap = tap
        self._origin = origin
        self._loop = loop

    def ends(self, on_data: Callable[[bytes], None]) -> tuple[Callable[[bytes], None], Send]:
        """Both ends of a new process's channel, with a listener in between."""
        told = self._guarded(self._tap)(self._origin)
        if told is None:
            return on_data, os.write
        listen = self._guarded(told)

        def hear(data: bytes) -> None:
            listen("in", data)
            on_data(data)

        def send(descriptor: int, data: bytes | memoryview) -> int:
            written = os.write(descriptor, data)
            listen("out", bytes(data[:written]))
            return written

        return hear, send

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
