"""What `import plughost` offers, though it imports nothing yet."""

from __future__ import annotations

import pytest

import plughost


def test_whatever_is_exported_is_there():
    assert {name for name in plughost.__all__ if getattr(plughost, name)} <= {*dir(plughost)}
    with pytest.raises(AttributeError, match="has no attribute 'Hots'"):
        plughost.Hots  # noqa: B018
