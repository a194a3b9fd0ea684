"""Functions and coroutines, called alike."""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from typing import Any

VARARGS = 0x04
"""In a code object's flags: it takes as many arguments as there are."""


class Handler:
    """A function, and how many of the arguments on offer it takes: it may leave out the last ones."""

    def __init__(self, function: Callable[..., Any], decorator: str, offered: tuple[str, ...]) -> None:
        self.function = function
        self.name = getattr(function, "__name__", type(function).__name__)
        required, most = _parameters(function)
        self.least = len(required)
        self.most = len(offered) if most is None else most
        if self.least > len(offered):
            called = f"{decorator} calls {self.name}({', '.join(offered)})"
            raise TypeError(f"{called}, but {self.name} needs {' and '.join(required)}")


def _parameters(function: Callable[..., Any]) -> tuple[list[str], int | None]:
    """The names of the arguments that it must be given, and how many it takes at most; None is any number."""
    plain = getattr(function, "__func__", function)
    code = getattr(plain, "__code__", None)
    if code is None:
        return _inspected(function)
    bound = plain is not function
    if bound and not code.co_argcount and not code.co_flags & VARARGS:
        raise TypeError(f"{function.__qualname__} is a method: its first parameter is `self`")
    count, named = code.co_argcount, code.co_kwonlyargcount
    required = [*code.co_varnames[bound : count - len(plain.__defaults__ or ())]]
    for name in code.co_varnames[count : count + named]:
        if name not in (plain.__kwdefaults__ or ()):
            told = f"{function.__qualname__} has the keyword-only parameter `{name}`"
            raise TypeError(f"{told}, but handlers get their arguments by position")
    return required, None if code.co_flags & VARARGS else count - bound


def _inspected(function: Callable[..., Any]) -> tuple[list[str], int | None]:
    """Of objects that are no functions. `inspect` takes longer to import than a small plugin to start."""
    import inspect

    try:
        parameters = inspect.signature(function).parameters.values()
    except ValueError:
        return [], None
    if any(parameter.kind is parameter.VAR_POSITIONAL for parameter in parameters):
        return [], None
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    positional = [each for each in parameters if each.kind in kinds]
    return [each.name for each in positional if each.default is each.empty], len(positional)


class Runner:
    """Runs handlers. The event loop is made for the first coroutine, and not before."""

    def __init__(self) -> None:
        self._loop: Any = None

    def run(self, handler: Handler, *offered: Any) -> Any:
        result = handler.function(*offered[: handler.most])
        return self._finish(result) if hasattr(result, "__await__") else result

    def _finish(self, awaitable: Awaitable[Any]) -> Any:
        if self._loop is None:
            import asyncio

            self._loop = asyncio.Runner()

        async def finish() -> Any:
            return await awaitable

        return self._loop.run(finish())

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
