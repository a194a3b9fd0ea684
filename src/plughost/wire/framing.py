"""Framing: where one message ends and the next begins. Newline-delimited JSON, and Content-Length headers
(LSP).

A framing is a push decoder: `feed` takes whatever bytes arrived and returns the frames they complete, in
order; any split of the same bytes gives the same frames. No byte is scanned twice, and the buffer never
exceeds the limit. Bytes that are not a frame are returned as a `FrameError`, in order among the frames.
"""

from __future__ import annotations

import re
from typing import Protocol

HEAD = 256
"""Bytes at the beginning of a wrong message that are kept for diagnosis."""


class FrameError(Exception):
    """Bytes that are not a frame. After a `fatal` error the rest of the stream cannot be decoded."""

    def __init__(self, message: str, head: bytes, *, fatal: bool) -> None:
        super().__init__(message)
        self.message = message
        self.head = head[:HEAD]
        self.fatal = fatal

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FrameError) and vars(self) == vars(other)

    __hash__ = None  # type: ignore[assignment]


class FrameTooLarge(Exception):
    """An outgoing message is larger than the other side accepts; nothing was written."""


Frame = bytes | bytearray
"""A large frame is the buffer in which it was collected: copying it would hold up the event loop."""
Frames = list[Frame | FrameError]

LARGE = 1 << 20


def _as_frame(buffer: bytearray) -> Frame:
    return buffer if len(buffer) >= LARGE else bytes(buffer)


class Framing(Protocol):
    """Splits a byte stream into frames and encodes messages as frames, without any I/O."""

    def feed(self, data: bytes) -> Frames:
        """Take bytes; the frames that they complete."""

    def end(self) -> Frames:
        """The stream has ended; the rest as a last frame or an error. Do not call `feed` afterwards."""

    def encode(self, body: bytes) -> bytes:
        """Encode one message for the wire; raises FrameTooLarge when it is over the limit."""


class Lines:
    """Newline-delimited framing: one message per line (NDJSON). The limit is for a line without its LF or
    CRLF.

    A line over the limit is one error; the rest of the line is skipped without being buffered.
    """

    __slots__ = ("_held", "_limit", "_send_limit", "_skipping")

    def __init__(self, limit: int, send_limit: int | None = None) -> None:
        self._limit = limit
        self._send_limit = limit if send_limit is None else send_limit
        self._held: bytearray | None = None
        """The beginning of a line that is not complete yet."""
        self._skipping = False

    def feed(self, data: bytes) -> Frames:
        frames: Frames = []
        frames += data.split(b"\n")
        last = frames.pop()
        if frames:
            if self._held is not None or self._skipping:
                frames[:1] = self._complete(frames[0])  # type: ignore[arg-type]
            if len(data) > self._limit:
                frames = [
                    line if isinstance(line, FrameError) else self._check_length(line) for line in frames
                ]
        if last:
            frames += self._hold(last)  # type: ignore[arg-type]
        return frames

    def end(self) -> Frames:
        return [] if self._held is None else self._complete(b"")

    def encode(self, body: bytes) -> bytes:
        if len(body) > self._send_limit:
            raise FrameTooLarge(f"a message of {len(body)} bytes is over the limit of {self._send_limit}")
        if 10 in body:  # white space in a caller's own JSON: in strings it is always escaped
            body = body.replace(b"\n", b" ")
        return body + b"\n"

    def _check_length(self, line: Frame) -> Frame | FrameError:
        if len(line) <= self._limit or (len(line) == self._limit + 1 and line.endswith(b"\r")):
            return line
        return self._too_long(line)

    def _too_long(self, line: Frame) -> FrameError:
        head = bytes(line[: min(HEAD, self._limit)])
        return FrameError(f"a line is longer than {self._limit} bytes", head, fatal=False)

    def _hold(self, piece: bytes) -> Frames:
        if self._skipping:
            return []
        if self._held is None:
            self._held = bytearray()
        self._held += piece
        if len(self._held) <= self._limit + 1:  # the last byte may be the CR of a CRLF
            return []
        error = self._too_long(self._held)
        self._held = None
        self._skipping = True
        return [error]

    def _complete(self, piece: bytes) -> Frames:
        if self._skipping:
            self._skipping = False
            return []
        line = self._held or bytearray()
        self._held = None
        line += piece
        return [self._check_length(_as_frame(line))]


_CHARSET = re.compile(rb";\s*charset\s*=\s*\"?([^\";\s]*)", re.I)
_UTF8 = (b"utf-8", b"utf8")
"""LSP accepts both, for backwards compatibility."""
_PLAIN_HEADER = re.compile(rb"Content-Length: ([0-9]{1,7})\r\n\r\n")
_LENGTH = re.compile(rb"\+?[0-9]{1,20}")
"""A sign and leading zeros are accepted, as the vectors of ainb require; 20 digits hold any 64-bit number."""


class ContentLength:
    """Content-Length framing: `Content-Length: n`, CRLF, CRLF, n bytes. Every error is fatal, because the
    position in the stream is lost.

    Header names are case-insensitive, and white space around name and value is trimmed. A repeated header
    overrides the one before it, and any other header is an error. With `lsp` the headers are those of the
    Language Server Protocol: Content-Type is allowed beside Content-Length and must be UTF-8 if it names a
    charset, and neither may be repeated. The header limit counts every byte, including the blank line.
    """

    __slots__ = (
        "_body", "_body_limit", "_broken", "_head", "_header_limit", "_header_line", "_header_size",
        "_in_body", "_length", "_lsp", "_send_limit", "_typed",
    )  # fmt: skip

    def __init__(
        self, body_limit: int, header_limit: int = 8192, send_limit: int | None = None, *, lsp: bool = False
    ) -> None:
        self._lsp = lsp
        self._body_limit = body_limit
        self._header_limit = header_limit
        self._send_limit = body_limit if send_limit is None else send_limit
        self._broken = False
        self._start_over()

    def _start_over(self) -> None:
        self._in_body = False
        self._length = -1
        self._typed = False
        """Whether the header block has a Content-Type."""
        self._header_line = bytearray()
        """The beginning of a header line that is not complete yet."""
        self._header_size = 0
        """Number of bytes of the header block so far."""
        self._body = bytearray()
        """The bytes of the body so far."""
        self._head = b""

    def feed(self, data: bytes) -> Frames:
        frames: Frames = []
        position = 0
        try:
            while not self._broken and position < len(data):
                if self._in_body:
                    position = self._read_body(data, position, frames)
                elif not self._header_size and (header := _PLAIN_HEADER.match(data, position)):
                    body = header.end()
                    length = int(header[1])
                    if body + length > len(data) or length > self._body_limit:  # not a simple frame
                        position = self._read_header_line(data, position, frames)
                    else:
                        position = body + length
                        frames.append(data[body:position])
                else:
                    position = self._read_header_line(data, position, frames)
        except FrameError as error:
            self._broken = True
            frames.append(error)
        return frames

    def end(self) -> Frames:
        if self._broken or not (self._header_size or self._in_body):
            return []
        self._broken = True
        if not self._in_body:
            return [FrameError("the stream ended inside a header block", self._head, fatal=True)]
        message = f"the stream ended after {len(self._body)} of {self._length} bytes"
        return [FrameError(message, bytes(self._body[:HEAD]), fatal=True)]

    def encode(self, body: bytes) -> bytes:
        if len(body) > self._send_limit:
            raise FrameTooLarge(f"a message of {len(body)} bytes is over the limit of {self._send_limit}")
        return b"Content-Length: %d\r\n\r\n%b" % (len(body), body)

    def _read_body(self, data: bytes, position: int, frames: Frames) -> int:
        piece = data[position : position + self._length - len(self._body)]
        self._body += piece
        if len(self._body) == self._length:
            frames.append(_as_frame(self._body))
            self._start_over()
        return position + len(piece)

    def _read_header_line(self, data: bytes, position: int, frames: Frames) -> int:
        stop = data.find(b"\n", position, position + self._header_limit + 1) + 1
        piece = data[position : stop or position + self._header_limit + 1]
        self._header_line += piece
        self._header_size += len(piece)
        if len(self._head) < HEAD:
            self._head += piece[:HEAD]
        if self._header_size > self._header_limit:
            head = self._head[: self._header_limit]
            raise FrameError(f"a header block is larger than {self._header_limit} bytes", head, fatal=True)
        if stop:
            line = bytes(self._header_line)
            self._header_line.clear()
            self._take_header_line(line)
            if self._in_body and self._length == 0:
                frames.append(b"")
                self._start_over()
        return position + len(piece)

    def _take_header_line(self, line: bytes) -> None:
        if not line.endswith(b"\r\n"):
            raise FrameError("a header line does not end with CRLF", self._head, fatal=True)
        if line != b"\r\n":
            self._length = self._parse(line[:-2])
        elif self._length < 0:
            raise FrameError("a header block without Content-Length", self._head, fatal=True)
        else:
            self._in_body = True

    def _parse(self, line: bytes) -> int:
        """Parse a header line; the length of the body, or -1 while it is not known."""
        try:
            line.decode()
        except UnicodeDecodeError:
            raise FrameError("a header line is not UTF-8", self._head, fatal=True) from None
        name, colon, value = line.partition(b":")
        if not colon:
            raise FrameError("a header line without a colon", self._head, fatal=True)
        name = name.strip().lower()
        if self._lsp and name == b"content-type":
            self._check_type(value)
            return self._length
        if name != b"content-length":
            raise FrameError("an unsupported header", self._head, fatal=True)
        if self._lsp and self._length >= 0:
            raise FrameError("a header block with two Content-Lengths", self._head, fatal=True)
        if not _LENGTH.fullmatch(value.strip()):
            raise FrameError("a Content-Length that is not a number", self._head, fatal=True)
        length = int(value)
        if length > self._body_limit:
            raise FrameError(
                f"a body of {length} bytes is over the limit of {self._body_limit}", self._head, fatal=True
            )
        return length

    def _check_type(self, value: bytes) -> None:
        if self._typed:
            raise FrameError("a header block with two Content-Types", self._head, fatal=True)
        self._typed = True
        charset = _CHARSET.search(value)
        if charset is not None and charset[1].lower() not in _UTF8:
            raise FrameError("a Content-Type with a charset that is not utf-8", self._head, fatal=True)
