"""Callbacks that do not keep alive whom they call."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any


def weak_callback(method: Callable[..., Any], otherwise: Any = None) -> Callable[..., Any]:
    """Call a method as long as its object is there; `otherwise` is the answer when it is gone."""
    reference = weakref.WeakMethod(method)

    def call(*arguments: Any) -> Any:
        there = reference()
        return otherwise if there is None else there(*arguments)

    return call
