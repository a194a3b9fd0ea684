"""What was acknowledged is there, at whatever moment the host was killed."""

from __future__ import annotations

import random
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import ROOT
from tests.support.storage_writer import padded


def killed_writer(
    folder: Path,
    plugins: int,
    lines: int,
    everybody: bool,
    writer: str = "tests.support.storage_writer",
) -> dict[str, int]:
    """The last step of each plugin that was acknowledged to us before it was killed, after so many `lines` and
    perhaps not before `everybody` has written."""
    command = [sys.executable, "-m", writer, str(folder), str(plugins)]
    acknowledged: dict[str, int] = {}
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        for number, line in enumerate(process.stdout):
            name, step = line.split()
            acknowledged[name.decode()] = int(step)
            if number >= lines and (not everybody or len(acknowledged) > plugins):
                process.kill()  # what it wrote until then is still read
    assert process.returncode == -9
    del acknowledged["ready"]
    return acknowledged


def opened(path: Path) -> dict[bytes, bytes]:
    """All that a file holds, when it is whole."""
    connection = sqlite3.connect(path)
    assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    if connection.execute("PRAGMA user_version").fetchone() == (0,):
        stored: dict[bytes, bytes] = {}  # killed before it had tables
    else:
        stored = dict(connection.execute("SELECT key, value FROM entries"))
        (used,) = connection.execute("SELECT bytes FROM usage").fetchone()
        assert used == sum(len(key) + len(value) for key, value in stored.items())
    connection.close()
    return stored


def check(path: Path, acknowledged: int) -> None:
    stored = opened(path)
    step = int(stored.pop(b"counter", b"0"))
    assert acknowledged <= step
    # What one step does shares a commit here, so that even the step that nobody heard of is whole.
    assert stored == {b"step%d" % one: padded(one) for one in (step - 1, step) if one > 0}


def rounds(folder: Path, count: int, plugins: int) -> None:
    source = random.Random(count)
    total: dict[str, int] = {}
    for number in range(count):
        lines = 0 if number == 1 else source.randrange(plugins * 5)
        total |= killed_writer(folder, plugins, lines, number == count - 1)
        for path in folder.glob("*.sqlite"):
            check(path, total.get(path.stem, 0))
    assert len(total) == len(list(folder.glob("*.sqlite"))) == plugins


def test_a_few_kills_at_random_moments_lose_nothing(tmp_path):
    rounds(tmp_path, 5, plugins=20)


@pytest.mark.soak
@pytest.mark.timeout(900)
def test_many_kills_of_a_hundred_plugins_lose_nothing(tmp_path):
    rounds(tmp_path, 100, plugins=100)
