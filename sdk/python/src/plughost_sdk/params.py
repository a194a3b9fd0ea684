"""What the host sends along, checked before a handler sees it."""

from __future__ import annotations

from plughost_sdk.host import to_bytes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class WrongParams(Exception):
    """Says which member, and why."""


def take(params: dict[str, Any], name: str, kind: type) -> Any:
    value = params.get(name)
    if not isinstance(value, kind) or isinstance(value, bool):
        raise WrongParams(f"`{name}` must be {kind.__name__}, not {value!r:.60}")
    return value


def take_bytes(params: dict[str, Any], name: str) -> bytes:
    try:
        return to_bytes(params[name])
    except (KeyError, TypeError, ValueError) as error:
        raise WrongParams(f"`{name}` is missing or is not bytes: {error}") from None
