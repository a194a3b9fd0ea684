from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from plughost.vai.packages.pack import Packed
from plughost.vai.packages.store.store import Store
from plughost.vai.packages.trust.keys import PublicKey
from plughost.vai.packages.trust.publishers import TrustedPublishers
from tests.support import sample_package as little


@pytest.fixture
def folder() -> Iterator[Path]:
    """In memory, where there is such a place."""
    with tempfile.TemporaryDirectory(prefix="plughost-tests-", dir=little.MEMORY) as made:
        yield Path(made)


@pytest.fixture
def store(folder: Path) -> Store:
    return Store(folder / "store" / "packages").open()


@pytest.fixture
def made(folder: Path) -> Packed:
    """A package that nobody has signed."""
    return little.packed(folder)


@pytest.fixture
def signer(folder: Path) -> tuple[Path, PublicKey]:
    return little.key(folder)


@pytest.fixture
def trust(signer: tuple[Path, PublicKey]) -> TrustedPublishers:
    """Acme's key is trusted."""
    return little.trusting(signer[1])


@pytest.fixture
def signed(made: Packed, signer: tuple[Path, PublicKey]) -> Packed:
    little.sign(made, signer[0])
    return made
