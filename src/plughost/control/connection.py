"""ControlConnection: one client of a control server, with its requests."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec

from plughost._util.text import encoded_json
from plughost.control.errors import to_report
from plughost.control.messages import ControlRequest, decode_request, encode_answer
from plughost.control.verbs import Verbs
from plughost.errors import HostFailed, InvalidSpec, Overloaded, PluginError, Stopped

REQUEST_TIMEOUT = 5.0
"""Seconds for the first request to arrive after its connection."""
READ_TIMEOUT = 30.0
"""Seconds for a client to read an answer; a slower one is disconnected."""
MAX_REQUESTS = 256
"""Requests of a client at a time; further ones are refused."""
MAX_UNREAD = 16 << 20
"""Bytes that a client may leave unread; beyond that a call with further events fails."""

STOPPING = "the host is stopping"


class ControlConnection:
    """One client: reads its requests, carries them out concurrently, and writes the answers."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, verbs: Verbs) -> None:
        self._reader = reader
        self._writer = writer
        self._verbs = verbs
        self._requests: dict[int, asyncio.Task[None]] = {}
        self._is_alone = False
        """Whether the connection has a single request, which has no id."""
        self.closing = False
        """Whether the host is about to end."""

    async def serve(self) -> None:
        """Answer requests until the client leaves. Its open calls are then cancelled."""
        try:
            request = await self._read(REQUEST_TIMEOUT)
            if request is not None and request.id is None:
                await self._serve_alone(request)
            while request is not None and request.id is not None:
                if request.do == "notify":  # at once: notifications keep their order
                    await self._serve_request(request, request.id)
                else:
                    self._take(request, request.id)
                await asyncio.sleep(0)  # many requests may have arrived: others have their turn
                await self.drain()  # a client that does not read its answers is served no further
                request = await self._read(None)
        except PluginError as error:
            self.refuse(error)
        except (TimeoutError, OSError, asyncio.CancelledError):
            pass  # the client sent nothing in time or disconnected, or the host is closing
        except Exception as error:  # a bug here must not leave the client waiting
            self.refuse(HostFailed(f"{type(error).__name__}: {error}"))
        finally:
            for task in self._requests.values():
                task.cancel()
            await asyncio.gather(*self._requests.values(), return_exceptions=True)

    def refuse(self, error: PluginError) -> None:
        """Write an error that belongs to no request with an id."""
        self._write(encoded_json({"error": to_report(error)}) + b"\n")

    def close(self) -> None:
        """Close the connection. What the client does not read in time is lost."""
        if self.closing and not self._is_alone:
            self.refuse(Stopped(STOPPING))  # the answer to requests that were not read or not begun
        self._writer.close()
        if self._writer.transport.get_write_buffer_size():
            asyncio.get_running_loop().call_later(READ_TIMEOUT, self._writer.transport.abort)

    async def _read(self, timeout: float | None) -> ControlRequest | None:
        """The next request; None when the client has left."""
        async with asyncio.timeout(timeout):
            try:
                line = await self._reader.readline()
                if not line and timeout is None:
                    return None
                return decode_request(line)
            except ValueError as error:  # too long, not JSON, or not a ControlRequest
                raise InvalidSpec(f"not a request: {error}") from error

    def _take(self, request: ControlRequest, number: int) -> None:
        if request.do == "cancel":
            if (task := self._requests.get(number)) is not None:
                task.cancel()
            return
        if number in self._requests:
            raise InvalidSpec(f"request {number} is still open: give each request its own id")
        if len(self._requests) >= MAX_REQUESTS:
            error = Overloaded(f"this client has {MAX_REQUESTS} open requests", plugin=request.plugin or "")
            self._write_error(number, error)
            return
        task = asyncio.create_task(self._serve_request(request, number))
        self._requests[number] = task
        task.add_done_callback(lambda _: self._requests.pop(number))

    async def _serve_request(self, request: ControlRequest, number: int) -> None:
        def send(document: Any) -> None:
            self._write(encode_answer(number, b"event", _encode(document)))

        try:
            result = await self._verbs.carry_out(request, _Sink(self, send))
            self._write(encode_answer(number, b"result", _encode(result)))
        except PluginError as error:
            self._write_error(number, error)
        except asyncio.CancelledError:
            if self.closing:
                self._write_error(number, Stopped(STOPPING, plugin=request.plugin or ""))
            raise
        except OSError:
            return  # the client has left
        except Exception as error:  # a bug here must not leave the client waiting
            self._write_error(number, HostFailed(f"{type(error).__name__}: {error}"))
        await self.drain()

    async def _serve_alone(self, request: ControlRequest) -> None:
        """Answer the only request of a connection. When the client leaves, it is cancelled."""

        def send(document: Any) -> None:
            self._write(_encode({"event": document} if request.do == "call" else document) + b"\n")

        async def carry_out() -> None:
            result = await self._verbs.carry_out(request, _Sink(self, send))
            if request.do not in ("logs", "watch"):
                self._write(_encode({"result": result} if request.do == "call" else result) + b"\n")
            await self.drain()

        self._is_alone = True
        work, gone = asyncio.create_task(carry_out()), asyncio.create_task(self._reader.read())
        try:
            # Others than these end soon, and a client may have closed its side of the connection.
            endless = request.follow or request.do in ("call", "watch", "pin")
            await asyncio.wait({work, gone} if endless else {work}, return_when=asyncio.FIRST_COMPLETED)
            if work.done():
                await work
        except asyncio.CancelledError:
            if self.closing and not work.done() and request.do not in ("logs", "watch"):
                self.refuse(Stopped(STOPPING, plugin=request.plugin or ""))
            raise
        finally:
            for task in (work, gone):
                task.cancel()
            await asyncio.gather(work, gone, return_exceptions=True)

    def _write_error(self, number: int, error: PluginError) -> None:
        self._write(encode_answer(number, b"error", encoded_json(to_report(error))))

    def _write(self, line: bytes) -> None:
        if not self._writer.is_closing():
            self._writer.write(line)

    def check_unread(self) -> None:
        """Overloaded if the client leaves too many events unread."""
        if (unread := self._writer.transport.get_write_buffer_size()) > MAX_UNREAD:
            raise Overloaded(f"the client has left {unread} bytes of events unread")

    async def drain(self) -> None:
        """Wait until the client has read most of what was written; it is disconnected if it reads nothing."""
        if not self._writer.transport.get_write_buffer_size():
            return
        try:
            async with asyncio.timeout(READ_TIMEOUT):
                await self._writer.drain()
        except TimeoutError:
            self._writer.transport.abort()


class _Sink:
    """Sends the events of one request, in the format of that request."""

    def __init__(self, connection: ControlConnection, send: Callable[[Any], None]) -> None:
        self._connection = connection
        self._send = send
        self.drain = connection.drain

    def send(self, document: Any) -> None:
        self._connection.check_unread()
        self._send(document)


def _encode(document: Any) -> bytes:
    encoded = bytes(document) if isinstance(document, msgspec.Raw) else encoded_json(document)
    return encoded.replace(b"\n", b" ")
