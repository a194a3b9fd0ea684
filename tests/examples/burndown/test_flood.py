"""Usage data by the megabyte comes in while the screen is shown: frames keep coming, and keys go ahead."""

from __future__ import annotations

import asyncio
import statistics
import time
from typing import NamedTuple

import pytest
from session_reader.publisher import CHUNK, PACE

import plughost
from plughost.contracts.ainb.chunks import UsageData, split
from plughost.contracts.ainb.contract import Ainb, KeyEvent
from plughost.contracts.ainb.messages import Char
from tests.support import ROOT, until

FRAME, KEY = 0.100, 0.020
"""Seconds that nobody waits longer for."""
RATE = 30


class Times(NamedTuple):
    frames: list[float]
    keys: list[float]


def payloads(size: int, target: int = CHUNK) -> list[bytes]:
    """A batch of that many bytes of msgpack, as session-reader publishes them."""
    call = {
        "id": 2**60, "provider": "claude", "session_id": "6f1c2a7e-0d43-4c55-9a51-1f6f0a3b9c01", "cost_usd": 0.01,
        "project_path": "/home/ada/tea-timer", "input_tokens": 12, "cache_creation_tokens": 18240,
        "cache_read_tokens": 20350, "output_tokens": 1210, "reasoning_tokens": 0, "tools": [],
        "bash_commands": [], "user_message": "", "branch": "main",
    }  # fmt: skip
    calls = [
        {
            **call,
            "model": f"model-{number % 7}",
            "project": f"project-{number % 40}",
            "timestamp": f"2025-{1 + number % 12:02}-{1 + number % 28:02}T09:00:00.000Z",
        }
        for number in range(size // 336)
    ]
    days = [[f"2025-11-{day:02}", {"input_tokens": day}] for day in range(1, 31)]
    return [*split(UsageData(daily=days, calls=calls), time.time_ns(), target=target)]


async def flood(chunks: list[bytes], pace: float) -> Times:
    """Publish at that pace; meanwhile 30 frames a second, and a key now and then, which is answered by a publish."""
    async with plughost.Host() as host:
        snapshots = host.service("snapshots")
        screen = Ainb(await host.add(ROOT / "plugins/burndown"))
        await screen.render(120, 40, deadline=60)
        frames: list[float] = []
        keys: list[float] = []
        answered: list[float] = []
        snapshots.listen("sessions.refresh_request", lambda payload: answered.append(time.perf_counter()))
        over = asyncio.Event()

        async def draw() -> None:
            while not over.is_set():
                began = time.perf_counter()
                await screen.render(120, 40, deadline=60)
                frames.append(time.perf_counter() - began)
                await asyncio.sleep(max(0.0, 1 / RATE - frames[-1]))

        async def press() -> None:
            while not over.is_set():
                before, began = len(answered), time.perf_counter()
                assert screen.key("usage", KeyEvent(Char("r")))
                await until(lambda before=before: len(answered) > before)
                keys.append(answered[before] - began)
                await asyncio.sleep(0.037)

        tasks = [asyncio.create_task(draw()), asyncio.create_task(press())]
        for chunk in chunks:
            snapshots.put("sessions.usage_data", chunk)
            await asyncio.sleep(pace)
        over.set()
        await asyncio.gather(*tasks)
        last = await screen.render(120, 40, deadline=60)
        assert "▇" in {cell.symbol for _, cell in last.buffer.cells}, "it has come through"
        return Times(frames, keys)


@pytest.mark.serial
async def test_frames_and_keys_while_megabytes_come_in():
    """The middle of them, in one of a few rounds: the machine may have something else to do."""
    late = []
    for _ in range(8):
        times = await flood(payloads(6 << 20), PACE)
        frame, key = statistics.median(times.frames), statistics.median(times.keys)
        if min(len(times.frames), len(times.keys)) > 3 and frame < FRAME and key < KEY:
            return
        late.append((frame, key))
    pytest.fail(f"seconds for a frame and for a key: {late}")


async def test_a_key_does_not_wait_for_what_is_queued():
    """All of it at once: the key is answered while most of the batch is still on its way."""
    chunks = payloads(8 << 20)
    async with plughost.Host() as host:
        snapshots = host.service("snapshots")
        screen = Ainb(await host.add(ROOT / "plugins/burndown"))
        await screen.render(80, 24, deadline=60)
        drawn = asyncio.get_running_loop().create_future()  # already, when the key was answered?
        snapshots.listen("sessions.refresh_request", lambda payload: drawn.set_result(frame.done()))
        for chunk in chunks:
            snapshots.put("sessions.usage_data", chunk)
        frame = asyncio.create_task(screen.render(80, 24, deadline=60))
        await asyncio.sleep(0)
        assert screen.key("usage", KeyEvent(Char("r")))
        assert not await asyncio.wait_for(drawn, 60), "which was asked for before, and comes after the events"
        await frame


@pytest.mark.soak
async def test_no_frame_and_no_key_is_late_while_64_mib_come_in():
    chunks = payloads(64 << 20)
    assert sum(map(len, chunks)) >= 64 << 20
    best = Times([9.0], [9.0])
    for _ in range(3):  # the best of three: the machine may have something else to do
        times = await flood(chunks, PACE)
        best = min(best, times, key=lambda times: max(max(times.frames) / FRAME, max(times.keys) / KEY))
        if max(best.frames) < FRAME and max(best.keys) < KEY:
            break
    assert (max(best.frames), max(best.keys)) < (FRAME, 9.0)
    assert max(best.keys) < KEY
