"""Messages as they go over the wire: JSON, and errors."""

from __future__ import annotations

import json
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
LARGE = 64 << 10
"""Bytes from which on it pays to look for somebody quicker."""


class NotJson(TypeError):
    """A value that JSON has no words for."""


def quick(size: int) -> Any:
    """msgspec, for something large, if the plugin has it anyway: it is three times as fast."""
    return sys.modules.get("msgspec") if size > LARGE else None


def decode(frame: bytes | bytearray) -> Any:
    """ValueError when it is no JSON."""
    msgspec = quick(len(frame))
    return json.loads(frame) if msgspec is None else msgspec.json.decode(frame)


def encode(message: Any) -> bytes:
    try:
        return json.dumps(message, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
    except (TypeError, ValueError, RecursionError) as error:
        said = "messages can hold dicts with text keys, lists, text, finite numbers, True, False and None"
        raise NotJson(f"{printable(str(error))}; {said}") from None


def printable(text: str) -> str:
    """Text that can be sent: file names may hold half a surrogate pair, UTF-8 cannot."""
    return text.encode(errors="backslashreplace").decode()


class Error(Exception):
    """An error as it goes over the wire: the plugin's own, or the host's answer to a call."""

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        if type(code) is not int:
            raise TypeError(f"an error's code is a number, not {code!r}: Error(7, 'what is wrong')")
        super().__init__(f"{message} ({code})")
        encode(data)  # while its author is still on the stack
        self.code = code
        self.message = printable(str(message))
        self.data = data

    def to_wire(self) -> dict[str, Any]:
        said: dict[str, Any] = {"code": self.code, "message": self.message}
        return said if self.data is None else {**said, "data": self.data}
