"""Frames, as each contract cuts the stream of bytes."""

from __future__ import annotations

from abc import ABC, abstractmethod

from plughost_sdk.pipes import CHUNK, Pipes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Self


class BrokenWire(Exception):
    """The bytes that came make no frame. There is no way to read on."""


class TooLarge(ValueError):
    """A message that the host would not take; nothing of it was sent."""


class Wire(ABC):
    """Frames of one format, read from and written to the host."""

    def __init__(
        self,
        receive: Callable[[int], bytes],
        send: Callable[[memoryview], int],
        receive_into: Callable[[memoryview], int] | None = None,
    ) -> None:
        """`receive(n)` gives up to n bytes, none at the end; `send` says how many it took. Large frames
        come by `receive_into`, if there is one: it fills what it is given and says how much of it."""
        self._receive = receive
        self._receive_into = receive_into
        self._send = send
        self._held = bytearray()
        self._ended = False

    @classmethod
    def claim(cls) -> Self:
        """The wire to the host, claimed now if it was not before."""
        pipes = Pipes.claim()
        return cls(pipes.receive, pipes.send, pipes.receive_into)

    @abstractmethod
    def read(self) -> bytes | bytearray | None:
        """Wait for the next frame; None at the end."""

    @abstractmethod
    def write(self, *frames: bytes) -> None:
        """Send frames, all in one piece."""

    def _fill(self) -> bool:
        """Read more; False at the end."""
        data = b"" if self._ended else self._receive(CHUNK)
        self._ended = not data
        self._held += data
        return not self._ended

    def _put(self, pieces: Iterable[bytes]) -> None:
        data = memoryview(b"".join(pieces))
        while data:
            data = data[self._send(data) :]


class Lines(Wire):
    """One message per line."""

    def read(self) -> bytes | None:
        seen = 0
        while (end := self._held.find(b"\n", seen)) < 0:
            seen = len(self._held)
            if not self._fill():
                rest, self._held = bytes(self._held), bytearray()
                return rest or None
        line = bytes(self._held[:end])
        del self._held[: end + 1]
        return line

    def write(self, *frames: bytes) -> None:
        self._put(frame + b"\n" for frame in frames)


class ContentLength(Wire):
    """`Content-Length: n`, CRLF, CRLF, n bytes."""

    MAX_HEADER = 8 << 10
    MAX_BODY = 16 << 20
    LSP = False
    """Whether a Content-Type may stand beside the length, and no header be repeated, as LSP has it."""

    def read(self) -> bytes | bytearray | None:
        end = self._header_end()
        if end is None:
            return None
        length = self._length(bytes(self._held[:end]))
        del self._held[: end + 4]
        if length > CHUNK and self._receive_into is not None:
            return self._large(length, self._receive_into)
        while len(self._held) < length:
            if not self._fill():
                raise _cut(len(self._held), length)
        body = bytes(self._held[:length])
        del self._held[:length]
        return body

    def write(self, *frames: bytes) -> None:
        for frame in frames:
            if len(frame) > self.MAX_BODY:
                told = f"a message of {len(frame)} bytes is over the limit of {self.MAX_BODY}"
                raise TooLarge(f"{told}: publish large data in chunks")
        self._put(b"Content-Length: %d\r\n\r\n%b" % (len(frame), frame) for frame in frames)

    def _large(self, length: int, receive_into: Callable[[memoryview], int]) -> bytearray:
        """Read to where it stays: copying megabytes takes longer than receiving them."""
        body = bytearray(length)
        have = min(length, len(self._held))
        body[:have] = self._held[:have]
        del self._held[:have]
        with memoryview(body) as view:
            while have < length:
                more = receive_into(view[have:])
                if not more:
                    raise _cut(have, length)
                have += more
        return body

    def _header_end(self) -> int | None:
        while (end := self._held.find(b"\r\n\r\n", 0, self.MAX_HEADER)) < 0:
            if len(self._held) >= self.MAX_HEADER:
                raise BrokenWire(f"a header block is larger than {self.MAX_HEADER} bytes")
            if not self._fill():
                if self._held:
                    raise BrokenWire("the stream ended inside a header block")
                return None
        return end

    def _length(self, block: bytes) -> int:
        length = -1
        seen = set()
        for line in block.split(b"\r\n"):
            name, _, value = line.partition(b":")
            name, value = name.strip().lower(), value.strip()
            if self.LSP and name in seen:
                raise BrokenWire(f"a header block with two headers {name.decode()}")
            seen.add(name)
            if self.LSP and name == b"content-type" and b"\n" not in line:
                _check_charset(value)
                continue
            digits = value.removeprefix(b"+")
            if name != b"content-length" or not digits.isdigit() or b"\n" in line:
                raise BrokenWire(f"not a header: {line[:80]!r}")
            length = int(digits)
        if length < 0:
            raise BrokenWire("a header block without Content-Length")
        if length > self.MAX_BODY:
            raise BrokenWire(f"a body of {length} bytes is over the limit of {self.MAX_BODY}")
        return length


class LspContentLength(ContentLength):
    """The same with the headers of the Language Server Protocol."""

    LSP = True


def _check_charset(value: bytes) -> None:
    for parameter in value.split(b";")[1:]:
        name, _, charset = parameter.partition(b"=")
        if name.strip().lower() == b"charset" and charset.strip(b' \t"').lower() not in (b"utf-8", b"utf8"):
            raise BrokenWire(f"a Content-Type with a charset that is not utf-8: {value[:80]!r}")


def _cut(have: int, length: int) -> BrokenWire:
    return BrokenWire(f"the stream ended after {have} of {length} bytes")
