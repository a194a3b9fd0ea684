from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from plughost.engine.launcher.launch import INNER, NATIVE
from plughost.sandbox.mechanisms.features import kernel_features
from plughost.sandbox.run_dir import RunDir
from plughost.sandbox.users import Users
from tests.support import sandbox_env as grounds
from tests.support.network import Outside, certificate

Inner = Callable[..., Awaitable[grounds.Ran]]


@pytest.fixture
def ground() -> Iterator[Path]:
    with grounds.ground() as folder:
        yield folder


@pytest.fixture
def inner(ground: Path) -> Inner:
    """Run a command below plughost-inner: `await inner(words, command)`."""

    def run(words: list[str], command: list[str], **how: Any) -> Awaitable[grounds.Ran]:
        return grounds.run([str(ground / "plughost-inner"), *words, "--", command[0], *command], **how)

    return run


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


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that every user can reach, which pytest's own are not."""
    path = Path(tempfile.mkdtemp(prefix="plughost-test-"))
    path.chmod(0o755)
    yield path
    shutil.rmtree(path)


@pytest.fixture
def run_dir(folder: Path) -> Iterator[RunDir]:
    base = folder / "quarters"
    base.mkdir()
    with RunDir(str(base), Users(str(folder / "uids"))) as run_dir:
        yield run_dir


@pytest.fixture
def strict() -> None:
    """For tests that really run something."""
    here = kernel_features()
    missing = here.namespaces or ("" if here.bubblewrap else "no bubblewrap")
    for program in (INNER, NATIVE):
        if not os.access(program, os.X_OK):
            missing = f"{os.path.basename(program)} was not compiled"
    if missing:
        if os.environ.get("CI"):
            pytest.fail(missing)
        pytest.skip(missing)
