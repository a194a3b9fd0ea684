from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from plughost.runtime.launch import INNER, NATIVE
from plughost.sandbox.machine import machine
from plughost.sandbox.quarters import Quarters
from plughost.sandbox.users import Users


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that every user can reach, which pytest's own are not."""
    path = Path(tempfile.mkdtemp(prefix="plughost-test-"))
    path.chmod(0o755)
    yield path
    shutil.rmtree(path)


@pytest.fixture
def quarters(folder: Path) -> Iterator[Quarters]:
    base = folder / "quarters"
    base.mkdir()
    with Quarters(str(base), Users(str(folder / "uids"))) as quarters:
        yield quarters


@pytest.fixture
def strict() -> None:
    """For tests that really run something."""
    here = machine()
    missing = here.namespaces or ("" if here.bubblewrap else "no bubblewrap")
    for program in (INNER, NATIVE):
        if not os.access(program, os.X_OK):
            missing = f"{os.path.basename(program)} was not compiled"
    if missing:
        if os.environ.get("CI"):
            pytest.fail(missing)
        pytest.skip(missing)
