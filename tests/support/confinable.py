"""For tests that really confine something: where this machine cannot, they are skipped, but never in CI."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from plughost.sandbox.mechanisms.availability import unavailable
from plughost.sandbox.mechanisms.features import kernel_features

PATH = "/usr/local/bin:/usr/bin:/bin"
"""Programs that every user can reach."""
PUBLIC_PYTHON = "/usr/bin/python3"
"""An interpreter that every user can reach: a manifest may name no other, such as one in somebody's home."""


def needs(*classes: str) -> None:
    for each in classes:
        if (missing := unavailable(each, kernel_features())) is not None:
            if os.environ.get("CI"):
                pytest.fail(missing[0])
            pytest.skip(missing[0])


@contextmanager
def open_folder() -> Iterator[Path]:
    """A folder that plugins of a root host can reach; those of pytest are closed to other users."""
    with tempfile.TemporaryDirectory(prefix="plughost-open-") as made:
        os.chmod(made, 0o755)
        yield Path(os.path.realpath(made))
