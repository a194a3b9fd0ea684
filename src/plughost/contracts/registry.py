"""The registry of contracts: found by entry point, loaded when first used."""

from __future__ import annotations

import functools
import warnings
from typing import TYPE_CHECKING

from plughost._util.text import bounded
from plughost.contracts.base import Contract
from plughost.errors import InvalidSpec
from plughost.spec import PluginSpec

if TYPE_CHECKING:  # import time that a program may not need to spend
    from importlib.metadata import EntryPoint
    from pathlib import Path

GROUP = "plughost.contracts"


def get_contract(name: str) -> Contract:
    """Returns the contract called `name`. InvalidSpec when there is none, when several packages register one
    of that name, or when it cannot be loaded."""
    entry = _find(name)
    loaded = _load(entry)
    if isinstance(loaded, Exception):
        raise InvalidSpec(
            _describe_failure(entry, loaded), hint=f"update or uninstall {_package(entry)}"
        ) from loaded
    return loaded


def contract_names() -> list[str]:
    """The names of all registered contracts, sorted."""
    return sorted(_registered())


def loadable_contracts() -> list[Contract]:
    """All contracts that can be loaded. The others are left out, with a RuntimeWarning: no plugin could use
    them anyway."""
    return [loaded for name in contract_names() if (loaded := _load_or_warn(_find(name))) is not None]


def detect_contract(folder: Path) -> PluginSpec | None:
    """Returns the spec described by a manifest in `folder`; None when no contract finds one there.

    A folder with manifests of two contracts is refused: its author must not choose the weaker one.
    """
    specs = [spec for contract in loadable_contracts() if (spec := contract.read_folder(folder)) is not None]
    if len(specs) > 1:
        names = " and ".join(spec.contract for spec in specs)
        raise InvalidSpec(
            f"{folder} has manifests of several contracts: {names}",
            hint="bind it in a plughost.toml of your own, which names the contract, and pass that with -c",
        )
    return specs[0] if specs else None


@functools.cache
def _registered() -> dict[str, list[EntryPoint]]:
    """The entry points of all contracts, by name: more than one where packages use the same name."""
    from importlib.metadata import entry_points

    found: dict[str, list[EntryPoint]] = {}
    for entry in entry_points(group=GROUP):
        found.setdefault(entry.name, []).append(entry)
    return found


def _find(name: str) -> EntryPoint:
    entries = _registered().get(name)
    if entries is None:
        raise InvalidSpec(f"unknown contract {name!r}; known: {', '.join(contract_names())}")
    if len(entries) > 1:
        packages = " and ".join(sorted(_package(entry) for entry in entries))
        raise InvalidSpec(
            f"the contract {name!r} is registered by several packages: {packages}",
            hint="uninstall all of them but one",
        )
    return entries[0]


@functools.cache
def _load(entry: EntryPoint) -> Contract | Exception:
    """The contract, or why it cannot be loaded: a failed import is not tried again for every folder."""
    try:
        loaded: Contract = entry.load()
        if loaded.name != entry.name:
            raise InvalidSpec(f"it calls itself {loaded.name!r}")
        return loaded
    except Exception as error:  # a package of others: its code may raise anything
        return error


@functools.cache
def _load_or_warn(entry: EntryPoint) -> Contract | None:
    loaded = _load(entry)
    if isinstance(loaded, Exception):
        warnings.warn(f"{_describe_failure(entry, loaded)}. It is ignored.", RuntimeWarning, stacklevel=3)
        return None
    return loaded


def _describe_failure(entry: EntryPoint, error: Exception) -> str:
    reason = bounded(f"{type(error).__name__}: {error}", 1000)
    return f"the contract {entry.name!r} of {_package(entry)} cannot be loaded: {reason}"


def _package(entry: EntryPoint) -> str:
    return entry.value if entry.dist is None else entry.dist.name
