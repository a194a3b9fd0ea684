"""Weak callbacks: they do not keep the object alive whose method they call."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any


def weak_callback(method: Callable[..., Any], otherwise: Any = None) -> Callable[..., Any]:
    """A function that calls a method while its object exists, and returns `otherwise` after that."""
    reference = weakref.WeakMethod(method)

    def call(*arguments: Any) -> Any:
        target = reference()
        return otherwise if target is None else target(*arguments)

    return call
