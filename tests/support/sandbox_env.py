"""Where confined plugins run in tests: as nobody when we are root, in a folder that nobody can reach."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from plughost.engine.io.process import Process
from plughost.engine.launcher.launch import INNER, Launch
from plughost.errors import LaunchFailed

NOBODY = 65534
ROOT_HOST = os.geteuid() == 0
CONFINE = f"{NOBODY}:{NOBODY}" if ROOT_HOST else "keep"
PYTHON = ("/usr/bin/python3" if ROOT_HOST else sys.executable, "-I", "-S", "-c")
SYSTEM = [
    word
    for path in ("/usr", "/bin", "/lib", "/lib64", "/proc", sys.base_prefix)
    for word in ("execute", os.path.realpath(path))
]
"""What a program needs to start at all, as words for Landlock."""


class Ran(NamedTuple):
    status: int | None
    out: str
    err: str
    failure: LaunchFailed | None
    confined_by: tuple[str, ...]


@contextmanager
def ground() -> Iterator[Path]:
    """A folder with plughost-inner in it, and `own`, which belongs to the plugin's user."""
    if not os.path.exists(INNER):
        if os.environ.get("CI"):
            pytest.fail("plughost-inner is missing")
        pytest.skip("plughost-inner was not compiled: no C compiler")
    with tempfile.TemporaryDirectory(prefix="plughost-sandbox-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        shutil.copy(INNER, folder / "plughost-inner")
        (folder / "own").mkdir()
        if ROOT_HOST:
            os.chown(folder / "own", NOBODY, NOBODY)
        yield folder


async def run(
    command: list[str],
    *,
    confine: str = CONFINE,
    mode: str = "auto",
    launcher: tuple[str, ...] = (),
) -> Ran:
    """Run to its end, as the runtime does."""
    loop = asyncio.get_running_loop()
    executed, exited = loop.create_future(), loop.create_future()
    launch = Launch(tuple(command), {"PATH": "/usr/bin:/bin"}, "/", launcher, mode, confine)
    process = Process(launch, loop, executed.set_result, lambda: exited.set_result(None))
    chunks = []
    try:
        async with asyncio.timeout(60):
            await executed
            await exited
        os.set_blocking(process.stdout, True)
        while chunk := os.read(process.stdout, 65536):
            chunks.append(chunk)
    finally:
        process.kill()
        os.close(process.stdin)
        os.close(process.stdout)
        process.release()
    out = b"".join(chunks).decode()
    return Ran(process.exit_status, out, process.stderr.text(), executed.result(), process.confined_by)


def fields(text: str) -> dict[str, list[str]]:
    """`/proc/PID/status`, read."""
    return {name: value.split() for name, _, value in (line.partition(":") for line in text.splitlines())}
