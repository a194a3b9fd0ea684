"""A real registry on this machine, one for all tests; and one that wants a password."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.support import ROOT
from tests.support.registry_faults import Faulty

REGISTRY = ROOT / ".tools/usr/bin/docker-registry"
USER, PASSWORD = "ada", "correct horse"
HASH = "$2b$04$abcdefghijklmnopqrstuujydOTSfIH/d5oUHpsygqV5X9xJLQc6e"

CONFIG = """
version: 0.1
log: {{level: info}}
storage: {{filesystem: {{rootdirectory: {folder}/data}}, delete: {{enabled: true}}}}
http: {{addr: "127.0.0.1:0", secret: not-so-secret}}
"""


def serve(folder: Path, more: str = "") -> Iterator[str]:
    """`HOST:PORT` of a registry that keeps its things in `folder`."""
    program = REGISTRY if REGISTRY.exists() else shutil.which("docker-registry")
    if program is None:
        if os.environ.get("CI"):
            pytest.fail("there is no docker-registry: make setup gets it")
        pytest.skip("there is no docker-registry here")
    (folder / "config.yml").write_text(CONFIG.format(folder=folder) + more)
    with (folder / "log").open("wb") as log:
        server = subprocess.Popen(
            [program, "serve", folder / "config.yml"], stdout=log, stderr=log, stdin=subprocess.DEVNULL
        )
    try:
        yield _address(folder / "log", server)
    finally:
        server.terminate()
        server.wait()


def _address(log: Path, server: subprocess.Popen[bytes]) -> str:
    end = time.monotonic() + 30
    while not (told := re.search(r"listening on (127\.0\.0\.1:[0-9]+)", log.read_text())):
        assert server.poll() is None, log.read_text()
        assert time.monotonic() < end, log.read_text()
        time.sleep(0.01)
    return told[1]


@pytest.fixture(scope="session")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    yield from serve(tmp_path_factory.mktemp("registry"))


@pytest.fixture(scope="session")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """It wants `USER` and `PASSWORD`."""
    folder = tmp_path_factory.mktemp("guarded")
    (folder / "htpasswd").write_text(f"{USER}:{HASH}\n")
    yield from serve(folder, f"auth: {{htpasswd: {{realm: here, path: {folder}/htpasswd}}}}\n")


@pytest.fixture
def repository(registry: str, request: pytest.FixtureRequest) -> str:
    """`HOST:PORT/NAME`, a name of this test's own."""
    name = re.sub(r"[^a-z0-9]+", "-", request.node.name.lower()).strip("-")
    return f"{registry}/tests/{name[:100].strip('-')}"


@pytest.fixture(autouse=True)
def _nobody(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No credentials of whoever runs the tests."""
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path / "no-docker"))
    for name in (
        "XDG_RUNTIME_DIR",
        "REGISTRY_AUTH_FILE",
        "PLUGHOST_REGISTRY_USER",
        "PLUGHOST_REGISTRY_PASSWORD",
    ):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
async def faulty() -> AsyncIterator[Faulty]:
    server = Faulty()
    await server.start()
    yield server
    await server.stop()
