from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.sandbox.outside import Outside, certificate


@pytest.fixture
async def outside(tmp_path: Path) -> AsyncIterator[Outside]:
    outside = Outside(tmp_path)
    outside.names = {"good.test": ["127.0.0.1"]}
    yield outside
    await outside.close()


@pytest.fixture(scope="session")
def tls_files(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A certificate for good.test, names below wild.test and 127.0.0.1, and its key."""
    folder = tmp_path_factory.mktemp("tls")
    return certificate(folder, "DNS:good.test", "DNS:*.wild.test", "IP:127.0.0.1")
