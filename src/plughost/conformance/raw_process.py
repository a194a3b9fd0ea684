"""A raw plugin process for tests: sends and receives frames, valid or not, with no session between."""

from __future__ import annotations

import asyncio
from collections import deque
from types import TracebackType
from typing import Any, Self

import msgspec

from plughost._util.text import escape_controls
from plughost.conformance.axis import Failed
from plughost.engine.channel import PipeChannel
from plughost.errors import LaunchFailed
from plughost.sandbox.unhosted import Start
from plughost.wire.framing import Frame, FrameError, Frames, Framing
from plughost.wire.surrogates import decode_replacing

PATIENCE = 10.0
"""Default seconds to wait for a message; generous, since a slow machine is not the plugin's fault."""
QUIET = 0.2
"""Seconds without a message that count as silence."""
MOST_HELD = 1 << 20
"""Bytes of unread frames before the pipe is no longer read: backpressure against a plugin that floods
stdout."""
MOST_LINES = 10_000
"""Maximum number of lines of its stderr."""
FRAME_COST = 64
"""Bytes that each frame counts in addition to its content, so that a flood of empty lines is limited too."""

_values = msgspec.json.Decoder()


class RawProcess:
    """A context manager: the process runs inside; on exit it and all its descendants are killed."""

    def __init__(
        self, start: Start, framing: Framing, frames: deque[str], patience: float = PATIENCE
    ) -> None:
        self._start = start
        self._framing = framing
        self._frames = frames
        self._patience = patience
        self._heard: asyncio.Queue[Frame | FrameError | None] = asyncio.Queue()
        """What came, in order; None is the end of its stdout."""
        self._held = 0
        self.taken = 0
        """Bytes of the frames that were taken so far."""

    async def __aenter__(self) -> Self:
        loop = asyncio.get_running_loop()
        self._executed: asyncio.Future[LaunchFailed | None] = loop.create_future()
        self._exited: asyncio.Future[None] = loop.create_future()
        self._process = self._start(self._executed.set_result, lambda: self._exited.set_result(None))
        self._channel = PipeChannel(
            loop,
            self._process.stdout,
            self._process.stdin,
            on_data=self._feed,
            on_end=self._end,
            on_broken=lambda error: None,  # it does not read on; what it said decides
            on_room=lambda: None,
        )
        self._channel.resume()
        try:
            await asyncio.wait([self._executed])
            if (failure := self._executed.result()) is not None:
                raise failure
        except BaseException:
            await self._close()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._close()

    async def _close(self) -> None:
        self._process.kill()
        try:
            await asyncio.wait([self._exited], timeout=PATIENCE)
        finally:
            if not self._exited.done():
                self._process.kill_launcher()
            self._channel.close()
            self._process.release()

    def _feed(self, data: bytes) -> None:
        self._hear(self._framing.feed(data))
        if self._held > MOST_HELD:
            self._channel.pause()

    def _end(self) -> None:
        self._hear(self._framing.end())
        self._heard.put_nowait(None)

    def _hear(self, frames: Frames) -> None:
        for frame in frames:
            body = frame.head if isinstance(frame, FrameError) else frame
            self._note("<", body)
            self._held += len(body) + FRAME_COST
            self._heard.put_nowait(frame)

    async def _next(self) -> Frame | FrameError | None:
        """The next frame; at the end of stdout None, on every call."""
        frame = await self._heard.get()
        if frame is None:
            self._heard.put_nowait(None)
        else:
            size = len(frame.head if isinstance(frame, FrameError) else frame)
            self.taken += size
            self._held -= size + FRAME_COST
            if self._held <= MOST_HELD:
                self._channel.resume()
        return frame

    def _note(self, way: str, body: Frame) -> None:
        self._frames.append(f"{way} {escape_controls(bytes(body[:1000]).decode(errors='backslashreplace'))}")

    # What the host says

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

    # What the plugin says

    async def message(self, what: str = "a message", patience: float | None = None) -> dict[str, Any]:
        """Waits for the next frame, which must be a JSON object."""
        frame = await self._awaited(what, patience)
        if frame is None:
            raise Failed(f"it ended its stdout instead of sending {what}{await self._last_words()}")
        return _object(frame, what)

    async def message_or_end(self, what: str) -> dict[str, Any] | None:
        """Waits for the next frame, which must be a JSON object; None at the end of stdout."""
        frame = await self._awaited(what, None)
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
        said = []
        while (frame := await self._awaited("the end of its stdout", None)) is not None:
            said.append(_object(frame, what))
        return said

    async def silent(self, what: str) -> None:
        """Requires silence for a while, or the end of stdout."""
        try:
            async with asyncio.timeout(QUIET):
                frame = await self._next()
        except TimeoutError:
            return
        if frame is not None:
            raise Failed(f"it spoke {what}")

    async def ended(self, what: str) -> None:
        """Requires the end of stdout with no further frame."""
        if await self._awaited("the end of its stdout", None) is not None:
            raise Failed(f"it spoke {what}")

    async def exit_status(self, patience: float | None = None) -> int | None:
        """Waits for the process to exit by itself, and returns its status."""
        patience = patience or self._patience
        if not (await asyncio.wait([self._exited], timeout=patience))[0]:
            raise Failed(f"it had not ended {patience:g} s after it should have")
        return self._process.exit_status

    async def _awaited(self, what: str, patience: float | None) -> Frame | FrameError | None:
        patience = patience or self._patience
        try:
            async with asyncio.timeout(patience):
                return await self._next()
        except TimeoutError:
            raise Failed(f"{what} did not come within {patience:g} s") from None

    def kill(self) -> None:
        self._process.kill()

    def last_words(self) -> str:
        """The process's stderr; only the end of it when there is very much."""
        return self._process.stderr.text(MOST_LINES)

    async def _last_words(self) -> str:
        await asyncio.wait([self._exited], timeout=1.0)
        words = self._process.stderr.text(5).strip()
        return f"; its last words: {words[-400:]}" if words else ""


def _object(frame: Frame | FrameError, what: str) -> dict[str, Any]:
    if isinstance(frame, FrameError):
        raise Failed(f"what came instead of {what} is no frame: {frame.message}")
    try:
        value = decode_replacing(_values, frame)
    except (ValueError, RecursionError) as error:
        raise Failed(f"what came instead of {what} is no JSON: {error}") from None
    if not isinstance(value, dict):
        raise Failed(f"what came instead of {what} is no JSON object")
    return value
