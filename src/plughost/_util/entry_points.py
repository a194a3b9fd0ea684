"""EntryPoints: objects that installed packages register by name, such as contracts and conformance axes."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Generic, TypeVar

from plughost._util.nearest import did_you_mean
from plughost._util.text import bounded
from plughost.errors import InvalidSpec

if TYPE_CHECKING:  # import time that a program may not need to spend
    from importlib.metadata import EntryPoint

T = TypeVar("T")


class EntryPoints(Generic[T]):
    """The objects of one entry-point group, loaded when first used. A package that is broken, or that takes a
    name twice, does not harm the others."""

    def __init__(
        self, group: str, what: str, check: Callable[[str, T], None] = lambda name, loaded: None
    ) -> None:
        """`what` is a word for one of them, for messages. `check` raises for an object that is not one."""
        self.group = group
        self._what = what
        self._check = check
        self._registered: dict[str, list[EntryPoint]] | None = None
        self._loaded: dict[str, T | Exception] = {}
        self._warned: set[str] = set()

    def names(self) -> list[str]:
        """The names of all that are registered, sorted."""
        return sorted(self._entries())

    def get(self, name: str) -> T:
        """The object of that name. InvalidSpec when there is none, when several packages register one of that
        name, or when it cannot be loaded."""
        entry = self._find(name)
        loaded = self._load(entry)
        if isinstance(loaded, Exception):
            raise InvalidSpec(self._failure(entry, loaded), hint=_remedy(entry)) from loaded
        return loaded

    def loadable(self) -> list[T]:
        """All that can be loaded. The others are left out, with one RuntimeWarning each."""
        found = []
        for name in self.names():
            entry = self._find(name)
            loaded = self._load(entry)
            if not isinstance(loaded, Exception):
                found.append(loaded)
            elif name not in self._warned:
                self._warned.add(name)
                message = f"{self._failure(entry, loaded)}. It is ignored: {_remedy(entry)}"
                warnings.warn(message, RuntimeWarning, stacklevel=3)
        return found

    def broken(self) -> list[str]:
        """The names of those that could not be loaded so far."""
        return sorted(name for name, loaded in self._loaded.items() if isinstance(loaded, Exception))

    def forget(self) -> None:
        """Look anew at what is installed."""
        self._registered = None
        self._loaded.clear()
        self._warned.clear()

    def _entries(self) -> dict[str, list[EntryPoint]]:
        """By name: more than one where packages use the same name."""
        if self._registered is None:
            from importlib.metadata import entry_points

            self._registered = {}
            for entry in entry_points(group=self.group):
                self._registered.setdefault(entry.name, []).append(entry)
        return self._registered

    def _find(self, name: str) -> EntryPoint:
        entries = self._entries().get(name)
        if entries is None:
            raise InvalidSpec(f"unknown {self._what} {name!r}{did_you_mean(name, self.names())}")
        if len(entries) > 1:
            packages = " and ".join(sorted(_package(entry) for entry in entries))
            raise InvalidSpec(
                f"the {self._what} {name!r} is registered by several packages: {packages}",
                hint="uninstall all of them but one",
            )
        return entries[0]

    def _load(self, entry: EntryPoint) -> T | Exception:
        """The object, or why it cannot be loaded: a failed import is not tried again each time."""
        if entry.name not in self._loaded:
            try:
                loaded: T = entry.load()
                self._check(entry.name, loaded)
                self._loaded[entry.name] = loaded
            except Exception as error:  # a package of others: its code may raise anything
                self._loaded[entry.name] = error
            except SystemExit:
                self._loaded[entry.name] = RuntimeError("importing it would end this program")
        return self._loaded[entry.name]

    def _failure(self, entry: EntryPoint, error: Exception) -> str:
        reason = bounded(f"{type(error).__name__}: {error}", 1000)
        return f"the {self._what} {entry.name!r} of {_package(entry)} cannot be loaded: {reason}"


def _package(entry: EntryPoint) -> str:
    return entry.value if entry.dist is None else entry.dist.name


def _remedy(entry: EntryPoint) -> str:
    return f"update or uninstall {_package(entry)}"
