"""A raw plugin process for tests: sends and receives frames, valid or not, with no session between."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any

import msgspec

from plughost._util.text import escape_controls
from plughost.conformance.axis import Failed
from plughost.conformance.process_context import ProcessContext
from plughost.sandbox.unhosted import Start
from plughost.wire.framing import Frame, FrameError, Frames, Framing
from plughost.wire.surrogates import decode_replacing

DEFAULT_TIMEOUT = 10.0
"""Default seconds to wait for a message; generous, since a slow machine is not the plugin's fault."""
QUIET = 0.2
"""Seconds without a message that count as silence."""
MAX_UNREAD_BYTES = 1 << 20
"""Bytes of unread frames before the pipe is no longer read: backpressure against a plugin that floods
stdout."""
MOST_LINES = 10_000
"""Maximum number of lines of its stderr."""
FRAME_COST = 64
"""Bytes that each frame counts in addition to its content, so that a flood of empty lines is limited too."""

_values = msgspec.json.Decoder()


class RawProcess(ProcessContext):
    """A process of a plugin, and its frames."""

    def __init__(
        self, start: Start, framing: Framing, frames: deque[str], timeout: float = DEFAULT_TIMEOUT
    ) -> None:
        super().__init__(start)
        self._framing = framing
        self._frames = frames
        self._timeout = timeout
        self._received: asyncio.Queue[Frame | FrameError | None] = asyncio.Queue()
        """Received frames, in order; None is the end of stdout."""
        self._unread_bytes = 0
        self.taken = 0
        """Total bytes of the frames read so far."""

    def _on_data(self, data: bytes) -> None:
        self._receive(self._framing.feed(data))
        if self._unread_bytes > MAX_UNREAD_BYTES:
            self._channel.pause()

    def _on_end(self) -> None:
        self._receive(self._framing.end())
        self._received.put_nowait(None)

    def _receive(self, frames: Frames) -> None:
        for frame in frames:
            body = frame.head if isinstance(frame, FrameError) else frame
            self._note("<", body)
            self._unread_bytes += len(body) + FRAME_COST
            self._received.put_nowait(frame)

    async def _next(self) -> Frame | FrameError | None:
        """The next frame; at the end of stdout None, on every call."""
        frame = await self._received.get()
        if frame is None:
            self._received.put_nowait(None)
        else:
            size = len(frame.head if isinstance(frame, FrameError) else frame)
            self.taken += size
            self._unread_bytes -= size + FRAME_COST
            if self._unread_bytes <= MAX_UNREAD_BYTES:
                self._channel.resume()
        return frame

    def _note(self, direction: str, body: Frame) -> None:
        self._frames.append(
            f"{direction} {escape_controls(bytes(body[:1000]).decode(errors='backslashreplace'))}"
        )

    # Host to plugin

    def send(self, message: Any) -> None:
        """Sends a message as one frame."""
        self.send_body(msgspec.json.encode(message))

    def send_body(self, body: bytes) -> None:
        """Sends a frame of any bytes."""
        self._note(">", body)
        self._channel.write(self._framing.encode(body))

    def send_raw(self, data: bytes) -> None:
        """Sends bytes that need not be a frame."""
        self._note(">", data)
        self._channel.write(data)

    def end_input(self) -> None:
        """Closes the process's stdin."""
        self._channel.close_write()

    # Plugin to host

    async def message(self, what: str = "a message", timeout: float | None = None) -> dict[str, Any]:
        """Waits for the next frame, which must be a JSON object."""
        frame = await self._next_within(what, timeout)
        if frame is None:
            raise Failed(f"it closed its stdout instead of sending {what}{await self._last_words()}")
        return _object(frame, what)

    async def message_or_end(self, what: str) -> dict[str, Any] | None:
        """Waits for the next frame, which must be a JSON object; None at the end of stdout."""
        frame = await self._next_within(what, None)
        return None if frame is None else _object(frame, what)

    async def message_soon(self) -> dict[str, Any] | None:
        """The next frame, which must be a JSON object; None when the process is silent or stdout has
        ended."""
        try:
            async with asyncio.timeout(QUIET):
                frame = await self._next()
        except TimeoutError:
            return None
        return None if frame is None else _object(frame, "a message")

    async def rest(self, what: str = "a message") -> list[dict[str, Any]]:
        """Waits for the exit; returns the remaining frames, each a JSON object."""
        await self.exit_status()
        messages = []
        while (frame := await self._next_within("the end of its stdout", None)) is not None:
            messages.append(_object(frame, what))
        return messages

    async def silent(self, what: str) -> None:
        """Requires silence for a while, or the end of stdout."""
        try:
            async with asyncio.timeout(QUIET):
                frame = await self._next()
        except TimeoutError:
            return
        if frame is not None:
            raise Failed(f"it wrote to stdout {what}")

    async def ended(self, what: str) -> None:
        """Requires the end of stdout with no further frame."""
        if await self._next_within("the end of its stdout", None) is not None:
            raise Failed(f"it wrote to stdout {what}")

    async def exit_status(self, timeout: float | None = None) -> int | None:
        """Waits for the process to exit by itself, and returns its status."""
        timeout = timeout or self._timeout
        if not await self._exits_within(timeout):
            raise Failed(f"it was still running {timeout:g} s after it should have exited")
        return self._process.exit_status

    async def _next_within(self, what: str, timeout: float | None) -> Frame | FrameError | None:
        timeout = timeout or self._timeout
        try:
            async with asyncio.timeout(timeout):
                return await self._next()
        except TimeoutError:
            raise Failed(f"{what} did not come within {timeout:g} s") from None

    def kill(self) -> None:
        self._process.kill()

    def last_words(self) -> str:
        """The process's stderr; only the end of it when there is very much."""
        return self._process.stderr.text(MOST_LINES)

    async def _last_words(self) -> str:
        await self._exits_within(1.0)
        words = self._process.stderr.text(5).strip()
        return f"; its last words: {words[-400:]}" if words else ""


def _object(frame: Frame | FrameError, what: str) -> dict[str, Any]:
    if isinstance(frame, FrameError):
        raise Failed(f"what came instead of {what} is not a frame: {frame.message}")
    try:
        value = decode_replacing(_values, frame)
    except (ValueError, RecursionError) as error:
        raise Failed(f"what came instead of {what} is not JSON: {error}") from None
    if not isinstance(value, dict):
        raise Failed(f"what came instead of {what} is not a JSON object")
    return value
