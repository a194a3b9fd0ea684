"""Fuzz targets: bytes in, nothing but documented outcomes out. Each raises when an invariant breaks."""

from __future__ import annotations

from collections.abc import Callable

from plughost.base.capability import Capability
from plughost.base.errors import Malformed, PluginError
from plughost.contracts.mcptest.session import McptestSession
from plughost.contracts.rune.session import RuneSession
from plughost.runtime.session import Session
from plughost.wire.envelope import NOTHING, Answer
from plughost.wire.framing import HEAD, ContentLength, FrameError, Framing, Lines

LIMIT = 64


def framing(make: Callable[[], Framing], data: bytes) -> None:
    """Split in two, byte by byte and whole: the same frames, none over the limit, heads bounded."""
    expected = _frames(make(), [data])
    cut = data[0] * len(data) // 256 if data else 0
    assert _frames(make(), [data[:cut], data[cut:]]) == expected
    assert _frames(make(), [bytes([byte]) for byte in data]) == expected
    for frame in expected:
        if isinstance(frame, FrameError):
            assert len(frame.head) <= HEAD
        else:
            assert len(frame) <= LIMIT + 1


def _frames(decoder: Framing, pieces: list[bytes]) -> list[bytes | FrameError]:
    return [frame for piece in pieces if piece for frame in decoder.feed(piece)] + decoder.end()


def conversation(session: Session, data: bytes) -> None:
    """Whatever a plugin says: an answer with one payload, a typed error, or silence."""
    decoder = session.framing()
    for frame in decoder.feed(data) + decoder.end():
        try:
            incoming = session.broken(frame) if isinstance(frame, FrameError) else session.receive(frame)
        except PluginError:
            return
        if isinstance(incoming, Answer):
            assert (incoming.result is NOTHING) != (incoming.error is NOTHING)
            if incoming.error is not NOTHING:
                assert session.failure("m", incoming).error is not None
        elif isinstance(incoming, Malformed):
            assert len(incoming.head) <= 4096


def _mcptest(data: bytes) -> None:
    session = McptestSession(1 << 16)
    session.call(1, "m", None, None)
    conversation(session, data)


def _rune(data: bytes) -> None:
    session = RuneSession("puppet", "rterm.plugin.v1", frozenset({Capability("a")}))
    session.begin("echo")
    session.call(1, "echo", {}, None)
    request_id = session._request_id.encode()
    conversation(session, data.replace(b"$ID", request_id))


TARGETS: dict[str, Callable[[bytes], None]] = {
    "lines": lambda data: framing(lambda: Lines(LIMIT), data),
    "content_length": lambda data: framing(lambda: ContentLength(LIMIT, header_limit=128), data),
    "mcptest": _mcptest,
    "rune": _rune,
}
