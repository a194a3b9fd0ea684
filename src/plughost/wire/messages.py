"""Messages as typed structs; payloads stay `Raw` so that only who needs them pays for decoding."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from plughost.errors import Malformed
from plughost.wire.framing import HEAD, Frame

NOTHING: Final = msgspec.Raw(b"")
"""A member that was not there; `null` is there, and is Raw(b"null")."""

ABSENT: Final = msgspec.UNSET
"""A value the caller did not give; None is given, and becomes `null`."""

encode: Final = msgspec.json.Encoder().encode
"""A message as JSON: compact, but for what a caller's Raw brings along."""

_decode: Final = msgspec.json.Decoder().decode


class Response(msgspec.Struct, gc=False):
    """What the plugin said to one of our requests: a result or an error, and its contract's extras."""

    id: int
    result: msgspec.Raw = NOTHING
    error: msgspec.Raw = NOTHING


class Progress(msgspec.Struct, frozen=True):
    """What the plugin says of one of our requests before its answer."""

    id: int
    payload: msgspec.Raw


class Request(msgspec.Struct, frozen=True):
    """The plugin asks the host. The id is echoed as it came."""

    id: int | str
    method: str
    params: msgspec.Raw = NOTHING


class Notification(msgspec.Struct, frozen=True):
    """The plugin tells the host and expects no answer."""

    method: str
    params: msgspec.Raw = NOTHING


class Unusable(msgspec.Struct, frozen=True):
    """A frame that means nothing: dropped and counted. No call is failed by it, but one that it was meant to
    answer and that would wait for ever."""

    reason: str
    head: bytes
    meant_for: int | None = None
    """The request that it seems to answer."""
    final: bool = False
    """Whether no better answer can follow, so that the call is failed at once, also one with a deadline."""


def decode(payload: msgspec.Raw, wrong: type[Malformed] = Malformed, kind: Any = Any) -> Any:
    """A payload as a value. The frame was JSON, but a number may still be out of range."""
    try:
        return _decode(payload) if kind is Any else msgspec.json.decode(payload, type=kind)
    except (ValueError, RecursionError) as error:
        message = f"a payload cannot be taken as what was expected: {error}"
        raise wrong(message, head=bytes(payload)[:HEAD]) from error


def is_utf8(data: Frame) -> bool:
    """Whether `data` is valid UTF-8: `Raw` payloads are not looked at by the decoder."""
    if data.isascii():
        return True
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True
