"""The messages of the control socket, each a line of JSON."""

from __future__ import annotations

from typing import TypeVar

import msgspec

from plughost.control.errors import ErrorReport
from plughost.wire.messages import is_utf8

MAX_LINE = 128 << 20
"""Bytes of a message: more than any contract allows for a call or a result."""

NONE = msgspec.Raw(b"")

T = TypeVar("T")


class ControlRequest(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """A request to a running host: `do` is call, notify, cancel, ps, inspect, methods, logs, watch, pin,
    start, restart, reload or stop.

    With an `id`, further requests may follow on the connection. `cancel` has the id of the request to cancel.
    `logs` with `follow`, `watch` and `pin` go on until then, or until the client leaves.
    `stop` without a plugin stops the host; `reload` without one reads plughost.toml again.
    """

    do: str
    id: int | None = None
    plugin: str | None = None
    method: str = ""
    params: msgspec.Raw = NONE
    timeout: float | None = None
    """Seconds for the call. Default: the contract's."""
    context: dict[str, str] | None = None
    progress: bool = False
    """Whether events of the call are wanted."""
    priority: bool = False
    """Whether the call is sent before waiting ones. Of one method of a plugin, one such call is open at a
    time; the others wait."""
    urgent: bool = False
    """Whether the notification is sent before everything that waits."""
    follow: bool = False
    """Whether `logs` goes on with new lines."""
    usage: bool = True
    """Whether `ps` and `inspect` read memory and processor time, which takes a while."""
    since: float | None = None
    """Seconds: `logs` leaves out what is older."""


class ControlAnswer(msgspec.Struct, omit_defaults=True):
    """An answer of a host: events of a call, lines of a log or states, any number of them, and then a result
    or an error."""

    id: int | None = None
    event: msgspec.Raw = NONE
    result: msgspec.Raw = NONE
    error: ErrorReport | None = None


_requests = msgspec.json.Decoder(ControlRequest)
_answers = msgspec.json.Decoder(ControlAnswer)


def decode_request(line: bytes) -> ControlRequest:
    """The request on a line; ValueError if it is not one."""
    if not is_utf8(line):  # the params go to a plugin as they are
        raise ValueError("it is not UTF-8")
    return _decode(_requests, line)


def decode_answer(line: bytes) -> ControlAnswer:
    """The answer on a line; ValueError if it is not one."""
    return _decode(_answers, line)


def _decode(decoder: msgspec.json.Decoder[T], line: bytes) -> T:
    try:
        return decoder.decode(line)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def encode_answer(number: int, member: bytes, document: bytes) -> bytes:
    """The line of an answer with one member, `event` or `result`, that is encoded already."""
    # Outside of strings, where JSON allows none, a newline is space.
    return b'{"id":%d,"%b":%b}\n' % (number, member, document.replace(b"\n", b" "))
