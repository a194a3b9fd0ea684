"""vai's client needs an event loop: its promises are tested with the asynchronous host only."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

import plughost
from tests.support import all_gone


@pytest.fixture
async def host(mark: str) -> AsyncIterator[plughost.Host]:
    async with plughost.Host() as host:
        yield host
        for plugin in host.plugins.values():
            plugin.kill()
    await all_gone(mark)
