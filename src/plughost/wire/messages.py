"""Messages as typed structs: Request, Response, Notification, Progress. Payloads stay `Raw`, so that only
code that needs them pays for decoding."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from plughost.errors import Malformed
from plughost.wire.framing import HEAD, Frame

NOTHING: Final = msgspec.Raw(b"")
"""The value of a missing member. A member that is `null` is Raw(b"null")."""

ABSENT: Final = msgspec.UNSET
"""A parameter that the caller did not pass. None is a value, and becomes `null`."""

encode: Final = msgspec.json.Encoder().encode
"""Encode a message as JSON: compact, except inside a caller's Raw."""

_decode: Final = msgspec.json.Decoder().decode


class Response(msgspec.Struct, gc=False):
    """The plugin's response to a request: a result or an error. Contracts subclass it for further members."""

    id: int
    result: msgspec.Raw = NOTHING
    error: msgspec.Raw = NOTHING


class Progress(msgspec.Struct, frozen=True):
    """A progress event that the plugin sends for a request before its response."""

    id: int
    payload: msgspec.Raw


class Request(msgspec.Struct, frozen=True):
    """A request of the plugin to the host. The id is echoed as it came."""

    id: int | str
    method: str
    params: msgspec.Raw = NOTHING


class Notification(msgspec.Struct, frozen=True):
    """A notification of the plugin to the host; it has no response."""

    method: str
    params: msgspec.Raw = NOTHING


class Reply(msgspec.Struct, frozen=True):
    """The session's own answer to a frame, such as a pong: an encoded message, which is sent at once."""

    message: bytes


class Unusable(msgspec.Struct, frozen=True):
    """A frame that is not a usable message: it is dropped and counted. It fails no call, except one that it
    was meant to answer and that would wait for ever."""

    reason: str
    head: bytes
    meant_for: int | None = None
    """The id of the request that it seems to answer."""
    final: bool = False
    """Whether no better response can follow: then the call fails at once, even if it has a deadline."""


def decode(payload: msgspec.Raw, wrong: type[Malformed] = Malformed, kind: Any = Any) -> Any:
    """Decode a payload as the type `kind`; raises `wrong`. The frame was JSON, but a number may be out of
    range."""
    try:
        return _decode(payload) if kind is Any else msgspec.json.decode(payload, type=kind)
    except (ValueError, RecursionError) as error:
        message = f"a payload does not have the expected type: {error}"
        raise wrong(message, head=bytes(payload)[:HEAD]) from error


def is_utf8(data: Frame) -> bool:
    """Whether `data` is valid UTF-8, which the decoder does not check inside `Raw` payloads."""
    if data.isascii():
        return True
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True
