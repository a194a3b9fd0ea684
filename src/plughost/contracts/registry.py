"""The registry of contracts: found by entry point, loaded when first used."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from plughost._util.entry_points import EntryPoints
from plughost.contracts.base import Contract
from plughost.errors import InvalidSpec
from plughost.spec import PluginSpec

if TYPE_CHECKING:  # import time that a program may not need to spend
    from pathlib import Path


def _check(name: str, loaded: Contract) -> None:
    if loaded.name != name:
        raise InvalidSpec(f"its name is {loaded.name!r}")
    missing = [member for member in Contract.__annotations__ if not hasattr(loaded, member)]
    if missing:
        raise InvalidSpec(
            f"it lacks {', '.join(missing)}: inherit from plughost.contract.BaseContract, which has "
            "defaults for them"
        )


CONTRACTS: EntryPoints[Contract] = EntryPoints("plughost.contracts", "contract", _check)
CLIENTS: EntryPoints[type[Any]] = EntryPoints("plughost.clients", "typed client of contract")
"""Typed clients: classes that are called with a Plugin."""


def get_contract(name: str) -> Contract:
    """Returns the contract called `name`. InvalidSpec when there is none, when several packages register one
    of that name, or when it cannot be loaded."""
    return CONTRACTS.get(name)


def contract_names() -> list[str]:
    """The names of all registered contracts, sorted."""
    return CONTRACTS.names()


def loadable_contracts() -> list[Contract]:
    """All contracts that can be loaded. The others are left out, with a RuntimeWarning: no plugin could use
    them anyway."""
    return CONTRACTS.loadable()


def broken_contracts() -> list[str]:
    """The names of contracts that could not be loaded so far."""
    return CONTRACTS.broken()


def detect_contract(folder: Path) -> PluginSpec | None:
    """Returns the spec described by a manifest in `folder`; None when no contract finds one there.

    A folder with manifests of two contracts is refused: its author must not choose the weaker one.
    """
    specs = [spec for contract in loadable_contracts() if (spec := contract.read_folder(folder)) is not None]
    if len(specs) > 1:
        names = " and ".join(spec.contract for spec in specs)
        raise InvalidSpec(
            f"{folder} has manifests of several contracts: {names}",
            hint="name its contract in a plughost.toml of your own, and pass that file with -c",
        )
    return specs[0] if specs else None
