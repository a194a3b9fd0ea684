"""The plugins' own modules, as their programs find them."""

from __future__ import annotations

import math
import sys

import pytest

from tests.support import ROOT

for name in ("session-reader", "burndown"):
    sys.path.append(str(ROOT / "plugins" / name))


@pytest.fixture
def prices():
    from session_reader.prices import load

    return load()


@pytest.fixture(autouse=True)
def _nobody_is_in_a_hurry(monkeypatch):
    """On a machine that stands still for a moment a reader would have a first picture of its own."""
    monkeypatch.setattr("session_reader.reader.FIRST_PICTURE", math.inf)
