"""Functions and coroutines, called alike."""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from typing import Any

CO_COROUTINE = 0x80


def is_coroutine(function: Callable[..., Any]) -> bool:
    """Without `inspect`, which takes longer to import than a small plugin to start."""
    code = getattr(getattr(function, "__func__", function), "__code__", None)
    return bool(code is not None and code.co_flags & CO_COROUTINE)


class Runner:
    """Runs handlers. The event loop is made for the first coroutine, and not before."""

    def __init__(self) -> None:
        self._loop: Any = None

    def run(self, function: Callable[..., Any], *arguments: Any) -> Any:
        result = function(*arguments)
        if is_coroutine(function):
            return self._finish(result)
        return result

    def _finish(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        if self._loop is None:
            import asyncio

            self._loop = asyncio.Runner()
        return self._loop.run(coroutine)

    def close(self) -> None:
        if self._loop is not None:
            self._loop.close()


def log(text: str) -> None:
    """To stderr, which is the host's log."""
    print(text, file=sys.stderr, flush=True)


def log_failure() -> None:
    """The traceback of what a handler has just raised."""
    import traceback

    traceback.print_exc()
