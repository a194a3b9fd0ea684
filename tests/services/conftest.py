from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from plughost.services.storage.service import Storage
from tests.support.storage_client import Client


@pytest.fixture
async def store(tmp_path) -> AsyncIterator[Storage]:
    store = Storage(tmp_path / "storage", quota=1 << 20)
    yield store
    await store.close()


@pytest.fixture
def client(store) -> Client:
    return Client(store, "notes")
