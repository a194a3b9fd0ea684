"""Keys and frames while another plugin publishes as much as it can. How fast, the benchmark `screen` tells."""

from __future__ import annotations

import asyncio
import statistics
import time
from pathlib import Path

import pytest

from plughost.contracts.ainb.contract import KeyEvent
from plughost.contracts.ainb.messages import Char
from plughost.screens.frame_source import FrameSource
from plughost.screens.session import follow_plugins, open_session
from tests.screens.test_frame_source import Seen
from tests.support import until, vouched
from tests.support.ainb import folder
from tests.support.screens import easel, inputs

CHUNK = 2 << 20
CHUNKS = 5


@pytest.mark.clause("AINB-24", "AINB-29", "AINB-50")
async def test_keys_and_frames_get_through_while_chunks_are_published(tmp_path):
    """In one of a few rounds: the machine may have something else to do."""
    late = []
    for round_ in range(4):
        late.append(await lateness(tmp_path / str(round_)))
        if late[-1] < 0.1:
            return
    pytest.fail(f"seconds for a key: {late}")


async def lateness(place: Path) -> float:
    """Of the middle one of the keys that are pressed meanwhile."""
    file = place / "inputs"
    shown = easel(place / "shown", env={"INPUTS": str(file), "MOVING": "1"})
    publisher = folder(place, "publisher")
    async with open_session([vouched(place) for place in (shown, publisher)], []) as (
        (plugin, other),
        *_,
    ):
        source = FrameSource(plugin, 30)
        async with follow_plugins([source]):
            watching = asyncio.create_task(source.watch(Seen()))
            await until(lambda: source.frames > 2)
            before = source.frames
            texts = [chr(97 + n) * CHUNK for n in range(CHUNKS)]
            publishing = asyncio.create_task(
                other.plugin.call("publish", {"topic": "data", "texts": texts}, timeout=60)
            )
            sent: list[float] = []
            while not publishing.done() or heard(file, "event") < CHUNKS:
                sent.append(time.monotonic())
                assert source.key("main", KeyEvent(Char("x")))
                await asyncio.sleep(0.02)
                assert len(sent) < 2000, "the chunks never came"
            await until(lambda: heard(file, "key") == len(sent))
            watching.cancel()
    noted = inputs(file)
    late = [
        came - went
        for went, (_, _, came) in zip(sent, (one for one in noted if one[0] == "key"), strict=True)
    ]
    assert max(late) < 20
    assert source.frames > before, "the screen stood still"
    assert sum(size for kind, size, _ in noted if kind == "event") >= CHUNKS * CHUNK
    return statistics.median(late)


def heard(file, kind: str) -> int:
    return sum(entry[0] == kind for entry in inputs(file))
