"""What a tool's function takes and returns: its input's shape, and the arguments of a call.

def search(query: str, context: vai.Context, limit: int = 10)  # {"query": …, "limit": …}
def search(input: Query, context: vai.Context)                 # a dataclass, a TypedDict or a dict: all of it

Types come from `typing`, whose import takes a while: only tools, and typed configs, bring it in.
"""

from __future__ import annotations

import typing

from plughost_sdk.vai.context import Context
from plughost_sdk.vai.convert import Mismatch, from_json, is_record
from plughost_sdk.vai.outcome import Result
from plughost_sdk.vai.schema import document, of_members

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

CONTEXT = "context"
COUNTS_ALL = 0x04 | 0x08
"""In a code object's flags: *args, **kwargs."""
MISSING = object()


class Signature:
    def __init__(self, function: Callable[..., Any], options: dict[str, Any]) -> None:
        self.name = getattr(function, "__name__", type(function).__name__)
        self.config = options.get("config")
        self._output = options.get("output")
        plain = getattr(function, "__func__", function)
        code = plain.__code__
        if code.co_flags & COUNTS_ALL:
            raise TypeError(f"{self.name} takes *args or **kwargs: a tool must name the members of its input")
        bound = plain is not function
        names = [*code.co_varnames[bound : code.co_argcount + code.co_kwonlyargcount]]
        defaults = plain.__defaults__ or ()
        last = code.co_varnames[code.co_argcount - len(defaults) : code.co_argcount]
        self.defaults = {**dict(zip(last, defaults, strict=True)), **(plain.__kwdefaults__ or {})}
        self._positional = code.co_posonlyargcount - bound
        self.hints = typing.get_type_hints(plain, include_extras=True)
        self._context = [name for name in names if name == CONTEXT or self.hints.get(name) is Context]
        self.names = [name for name in names if name not in self._context]
        self.whole = self._takes_it_whole()

    def _takes_it_whole(self) -> bool:
        if len(self.names) != 1:
            return False
        kind = self.hints.get(self.names[0], dict)
        return is_record(kind) or (typing.get_origin(kind) or kind) in (dict, typing.Any)

    def check(self) -> None:
        """What would go wrong at the first call."""
        if self._positional > 0:
            raise TypeError(
                f"{self.name} takes arguments by position only: the members of a tool's input have names"
            )
        self.input_schema()

    def arguments(self, given: Any, context: Context) -> dict[str, Any]:
        """By name."""
        named: dict[str, Any] = dict.fromkeys(self._context, context)
        if self.whole:
            [name] = self.names
            return {**named, name: from_json(self.hints.get(name, dict), given, "input")}
        if not isinstance(given, dict):
            raise Mismatch(f"input is an object, not {given!r:.60}")
        if unknown := given.keys() - {*self.names}:
            raise Mismatch(f"input has no {', '.join(sorted(unknown))}; it has {', '.join(self.names)}")
        for name in self.names:
            if name in given:
                named[name] = from_json(self.hints.get(name, typing.Any), given[name], f"input.{name}")
            elif name not in self.defaults:
                raise Mismatch(f"input.{name} is missing")
        return named

    def config_from(self, given: Any) -> Any:
        return from_json(self.config, given, "config")

    def input_schema(self) -> dict[str, Any]:
        if self.whole:
            return document(self.hints.get(self.names[0], dict))
        hints = {name: self.hints.get(name, typing.Any) for name in self.names}
        return of_members(hints, self.defaults)

    def output_schema(self) -> dict[str, Any] | None:
        """As `output=` or the function says; None if neither does."""
        told = self._output or self.hints.get("return", MISSING)
        return None if told in (MISSING, Result, type(None)) else document(told)
