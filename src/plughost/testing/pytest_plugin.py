"""The pytest plugin: fixtures for tests of plugins, found by pytest once plughost is installed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from plughost.testing import Driver, VirtualClock


@pytest.fixture
def plughost_drive() -> Iterator[Callable[..., Driver]]:
    """`plughost_drive(plugin, folder)` drives a plugin object until the end of the test."""
    from plughost.testing import drive

    with ExitStack() as stack:

        def start(plugin: Any, target: Any = None, **options: Any) -> Driver:
            return stack.enter_context(drive(plugin, target, **options))

        yield start


@pytest.fixture
def plughost_clock() -> VirtualClock:
    """Time under the test's control, for `Host(clock=…)`."""
    from plughost.testing import VirtualClock

    return VirtualClock()
