"""Results that take long to compute: computed by one test worker and read by all others."""

from __future__ import annotations

import fcntl
import os
import pickle
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import pytest

T = TypeVar("T")


def shared_folder(factory: pytest.TempPathFactory) -> Path:
    """A folder of this test run that all its workers have in common."""
    base = factory.getbasetemp()
    return base.parent if "PYTEST_XDIST_WORKER" in os.environ else base


def computed_once(factory: pytest.TempPathFactory, name: str, compute: Callable[[], T]) -> T:
    """The result of `compute`, from the first worker that needs it; the others wait for it. If it raises, the
    next one tries again."""
    folder = shared_folder(factory) / "shared"
    folder.mkdir(exist_ok=True)
    with locked(folder / f"{name}.lock"):
        file = folder / f"{name}.pickle"
        if not file.exists():
            result = compute()
            file.write_bytes(pickle.dumps(result))
        return pickle.loads(file.read_bytes())  # type: ignore[no-any-return]


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """One process at a time."""
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
