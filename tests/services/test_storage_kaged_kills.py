"""What a kaged plugin was told is stored is there, at whatever moment its host was killed."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

import pytest

from tests.services.test_storage_kills import killed_writer, opened
from tests.support import all_gone
from tests.support.storage_writer import padded

WRITER = "tests.support.kaged_writer"


def check(path: Path, acknowledged: int) -> None:
    stored = opened(path)
    step = int(stored.pop(b"counter", b"0"))
    assert acknowledged <= step
    # The host may have been killed anywhere in the next step, which comes as three requests.
    whole = {b"step%d" % one: padded(one) for one in range(max(step - 1, 1), step + 2)}
    assert stored.items() <= whole.items()
    assert step == 0 or b"step%d" % step in stored


def rounds(folder: Path, count: int, plugins: int) -> None:
    source = random.Random(count)
    total: dict[str, int] = {}
    for number in range(count):
        lines = 0 if number == 1 else plugins + source.randrange(plugins * 10)
        total |= killed_writer(folder, plugins, lines, number == count - 1, WRITER)
        for path in folder.glob("*.sqlite"):
            check(path, total.get(path.stem, 0))
    assert len(total) == len(list(folder.glob("*.sqlite"))) == plugins
    asyncio.run(all_gone(str(folder), within=30))


@pytest.mark.clause("KAGED-29")
def test_a_few_kills_of_a_host_whose_plugins_write_lose_nothing(tmp_path):
    rounds(tmp_path, 3, plugins=5)


@pytest.mark.soak
@pytest.mark.timeout(1800)
def test_many_kills_of_a_host_with_a_hundred_writing_plugins_lose_nothing(tmp_path):
    rounds(tmp_path, 15, plugins=100)
