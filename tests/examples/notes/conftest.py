from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.confinable import needs, open_folder


@pytest.fixture
def ground() -> Iterator[Path]:
    """For tests that confine: a folder that plugins can reach."""
    needs("strict")
    with open_folder() as folder:
        yield folder
