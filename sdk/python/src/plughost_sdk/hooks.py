"""The decorators, for both ways to write a plugin.

@plugin.method            class Mine(Plugin):
def echo(params): ...         @Plugin.method
                              def echo(self, params): ...

A hook says what its handlers are called with; a handler may leave out the last arguments.
"""

from __future__ import annotations

from plughost_sdk.handlers import Handler, Runner

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any, Self, TypeVar, overload

    Function = TypeVar("Function", bound=Callable[..., Any])


class Hooked:
    """What a plugin has hooked: its handlers by hook and name."""

    def __init__(self) -> None:
        self._handlers: dict[str, dict[str, list[Handler]]] = {}
        self._runner = Runner()
        for attribute, hook, name in _marked(type(self)):
            hook.__get__(self)._hook(name, getattr(self, attribute))

    def _names(self, hook: str) -> list[str]:
        return sorted(self._handlers.get(hook, ()))

    def _all(self, hook: str, name: str = "") -> list[Handler]:
        return self._handlers.get(hook, {}).get(name, [])

    def _one(self, hook: str, name: str = "") -> Handler | None:
        found = self._all(hook, name)
        return found[0] if found else None


class Hook:
    """On a plugin it adds a handler; on a class of plugins it marks a method, to be added to each of them."""

    _plugin: Hooked | None = None
    _name: str

    def __init__(self, *offered: str, many: bool = False) -> None:
        self._offered = offered
        self._many = many

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, plugin: Hooked | None, owner: type | None = None) -> Self:
        if plugin is None:
            return self
        bound = type(self)(*self._offered, many=self._many)
        bound._name, bound._plugin = self._name, plugin
        return bound

    def _hook(self, name: str, function: Function) -> Function:
        if not callable(function):
            raise TypeError(f"{self._spelled(name)} goes above a function, not {function!r:.60}")
        if self._plugin is None:
            self._mark(name, function)
            return function
        handler = Handler(function, self._spelled(name), self._offered)
        handlers = self._plugin._handlers.setdefault(self._name, {}).setdefault(name, [])
        if handlers and not self._many:
            both = f"{handlers[0].name} and {handler.name}"
            raise ValueError(f"two functions for {self._spelled(name)}, {both}: only one is allowed")
        handlers.append(handler)
        return function

    def _mark(self, name: str, function: Any) -> None:
        if "." not in getattr(function, "__qualname__", ".").rpartition("<locals>.")[2]:
            told = f"@Plugin.{self._name} is for methods of a Plugin subclass"
            raise TypeError(f"{told}: outside a class, write plugin = Plugin() and @plugin.{self._name}")
        function.__dict__.setdefault(_MARKS, []).append((self, name))

    def _spelled(self, name: str) -> str:
        return f"@plugin.{self._name}({name!r})" if name else f"@plugin.{self._name}"

    def _named(self, name: object) -> str:
        if not isinstance(name, str) or not name.strip():
            written = f'@plugin.{self._name}("name")'
            raise TypeError(f"@plugin.{self._name} needs a name: write {written} above the function")
        return name


class Bare(Hook):
    """`@plugin.screen`"""

    if TYPE_CHECKING:

        def __call__(self, function: Function) -> Function: ...
    else:

        def __call__(self, *function):
            if len(function) != 1:
                raise TypeError(f"write @plugin.{self._name} above a function, without parentheses")
            return self._hook("", function[0])


class Named(Hook):
    """`@plugin.on("topic")`"""

    def __call__(self, name: str) -> Callable[[Function], Function]:
        self._named(name)
        return lambda function: self._hook(name, function)


class Either(Hook):
    """`@plugin.method`, which takes the function's name, or `@plugin.method("another name")`"""

    if TYPE_CHECKING:

        @overload
        def __call__(self, name: str) -> Callable[[Function], Function]: ...
        @overload
        def __call__(self, name: Function) -> Function: ...
        def __call__(self, name: Any) -> Any: ...
    else:

        def __call__(self, name=None):
            if callable(name):
                return self._hook(self._named(getattr(name, "__name__", None)), name)
            self._named(name)
            return lambda function: self._hook(name, function)


_MARKS = "_plughost_sdk_marks"


def _marked(kind: type) -> Iterator[tuple[str, Hook, str]]:
    """The marked methods of a class, its bases' first; what a class overrides counts as the class has it."""
    attributes: dict[str, Any] = {}
    for each in reversed(kind.__mro__):
        attributes |= vars(each)
    for attribute, value in attributes.items():
        for hook, name in getattr(value, _MARKS, ()):
            yield attribute, hook, name
