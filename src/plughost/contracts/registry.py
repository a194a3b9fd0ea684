"""The registry of contracts: found by entry point, loaded when first used."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from plughost.contracts.base import Contract
from plughost.errors import InvalidSpec
from plughost.spec import PluginSpec

if TYPE_CHECKING:  # import time that a program may not need to spend
    from importlib.metadata import EntryPoint
    from pathlib import Path

GROUP = "plughost.contracts"


def get_contract(name: str) -> Contract:
    """Returns the contract called `name`; InvalidSpec lists the known names when there is none."""
    found = _registered().get(name)
    if found is None:
        known = ", ".join(sorted(_registered()))
        raise InvalidSpec(f"unknown contract {name!r}; known: {known}")
    return _load(found)


def contract_names() -> list[str]:
    """The names of all registered contracts, sorted."""
    return sorted(_registered())


def detect_contract(folder: Path) -> PluginSpec | None:
    """Returns the spec described by a manifest in `folder`; None when no contract finds one there.

    A folder with manifests of two contracts is refused: its author must not choose the weaker one.
    """
    specs = [
        spec for name in contract_names() if (spec := get_contract(name).read_folder(folder)) is not None
    ]
    if len(specs) > 1:
        names = " and ".join(spec.contract for spec in specs)
        raise InvalidSpec(
            f"{folder} has manifests of several contracts: {names}",
            hint="bind it in a plughost.toml of your own, which names the contract, and pass that with -c",
        )
    return specs[0] if specs else None


@functools.cache
def _registered() -> dict[str, EntryPoint]:
    from importlib.metadata import entry_points

    return {entry.name: entry for entry in entry_points(group=GROUP)}


@functools.cache
def _load(entry: EntryPoint) -> Contract:
    loaded: Contract = entry.load()
    return loaded
