"""Framing and frame decoding of vai.rpc.v1, shared by the host's and the plugin's side."""

from __future__ import annotations

import msgspec

from plughost._util.text import truncate
from plughost.contracts.vai.errors import InvalidFrame
from plughost.contracts.vai.manifest import PROTOCOL
from plughost.contracts.vai.messages import VaiEnvelope
from plughost.wire.framing import HEAD, ContentLength, Frame
from plughost.wire.messages import is_utf8
from plughost.wire.surrogates import decode_replacing

MAX_BODY = 16 << 20
MAX_HEADER = 8 << 10
_BRACE = ord("{")

_envelopes = msgspec.json.Decoder(VaiEnvelope)


def framing() -> ContentLength:
    """The Content-Length framing of the protocol, with its limits."""
    return ContentLength(MAX_BODY, header_limit=MAX_HEADER, lsp=True)


def read(frame: Frame) -> VaiEnvelope:
    """Decodes a frame of any type. Raises InvalidFrame when it violates the protocol."""
    try:
        envelope = decode_replacing(_envelopes, frame)
    except (ValueError, RecursionError) as error:
        raise invalid(f"not a frame of {PROTOCOL}: {error}", frame) from error
    if envelope.protocol != PROTOCOL:
        raise invalid(f"its protocol is {truncate(envelope.protocol)}, expected {PROTOCOL!r}", frame)
    if not envelope.type:
        raise invalid("a frame without a type", frame)
    if not is_utf8(frame):
        raise invalid("a frame that is not UTF-8", frame)
    return envelope


def invalid(why: str, frame: Frame) -> InvalidFrame:
    """An InvalidFrame error with the beginning of the frame."""
    return InvalidFrame(why, head=bytes(frame[:HEAD]))


def is_object(raw: msgspec.Raw) -> bool:
    """Whether raw JSON is an object."""
    text = memoryview(raw)
    return len(text) > 0 and text[0] == _BRACE
