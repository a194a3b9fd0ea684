"""The plugins' own modules, as their programs find them."""

from __future__ import annotations

import sys

import pytest

from tests.support import ROOT

for name in ("session-reader", "burndown"):
    sys.path.append(str(ROOT / "plugins" / name))


@pytest.fixture
def prices():
    from session_reader.prices import load

    return load()
