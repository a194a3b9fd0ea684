"""HostMethod: a method that plugins may call on the host."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec


class HostMethod(msgspec.Struct, frozen=True):
    """A method that plugins may call on the host: the capability it needs, and the service that answers
    it."""

    service: str
    """The service and its method: `snapshots.get`."""
    capability: str | None = None
    """The capability that a caller needs; checked before anything else."""
    params: Any = dict
    """The type to which the params are decoded."""
    result: Callable[[Any], Any] | None = None
    """Converts the service's result to the contract's wire format."""
    checks: tuple[str, ...] = ()
    """Used instead of `capability`: the service itself decides which of these is needed."""
    notification: bool = False
    """A notification: handled at once and in order, and not answered."""
