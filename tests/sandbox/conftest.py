from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.sandbox import ground as grounds

Inner = Callable[..., Awaitable[grounds.Ran]]


@pytest.fixture
def ground() -> Iterator[Path]:
    with grounds.ground() as folder:
        yield folder


@pytest.fixture
def inner(ground: Path) -> Inner:
    """Run a command below plughost-inner: `await inner(words, command)`."""

    def run(words: list[str], command: list[str], **how: Any) -> Awaitable[grounds.Ran]:
        return grounds.run([str(ground / "plughost-inner"), *words, "--", command[0], *command], **how)

    return run
