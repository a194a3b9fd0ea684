"""Every promise holds for the asynchronous host and for the one without an event loop."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

import plughost.sync
from tests.support import all_gone
from tests.support.sync_adapter import AwaitedHost


@pytest.fixture(params=["async", "sync"])
async def host(request: pytest.FixtureRequest, mark: str) -> AsyncIterator[Any]:
    if request.param == "async":
        async with plughost.Host() as host:
            yield host
            for plugin in host.plugins.values():
                plugin.kill()
    else:
        with plughost.sync.Host() as host:
            yield AwaitedHost(host)
            for plugin in host.plugins.values():
                plugin.kill()
    await all_gone(mark)
