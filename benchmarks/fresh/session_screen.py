"""`python -m benchmarks.fresh.session_screen HOME`: what somebody sees while session logs are read."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter

from benchmarks.fresh.session_reader import reader as session_reader
from benchmarks.paths import ROOT
from benchmarks.processes import below, holdings
from plughost import Host
from plughost.contracts.ainb.contract import Ainb, KeyEvent
from plughost.contracts.ainb.messages import Char

WIDTH, HEIGHT = 120, 40
RATE, KEYS = 30, 25
LATER = 2
"""Times that everything is read again, to see what that leaves behind."""


async def total(screen: Ainb) -> str:
    """The first line of a frame."""
    buffer = (await screen.render(WIDTH, HEIGHT)).buffer
    cells = {place.x: cell.symbol for place, cell in buffer.cells if place.y == 0}
    return "".join(cells.get(x, " ") for x in range(WIDTH))


class Watch:
    """Frames and keys, and how long each took."""

    def __init__(self, host: Host, screen: Ainb) -> None:
        self._screen = screen
        self._answered = asyncio.Event()
        self._changed = asyncio.Event()
        self._head = ""
        self.frames: list[float] = []
        self.keys: list[float] = []
        self.first: float | None = None
        host.service("snapshots").listen("sessions.refresh_request", lambda payload: self._answered.set())

    async def draw(self) -> None:
        while True:
            began = perf_counter()
            head = await total(self._screen)
            if self.first is None and "tokens" in head:
                self.first = perf_counter()
            if head != self._head:
                self._head = head
                self._changed.set()
            self.frames.append(perf_counter() - began)
            await asyncio.sleep(max(0.0, 1 / RATE - self.frames[-1]))

    async def press(self) -> None:
        """`r` is answered by a publish, which the host sees."""
        while True:
            self._answered.clear()
            began = perf_counter()
            self._screen.key("usage", KeyEvent(Char("r")))
            await self._answered.wait()
            self.keys.append(perf_counter() - began)
            await asyncio.sleep(1 / KEYS)

    async def change(self) -> float:
        """Seconds until another total is shown."""
        began = perf_counter()
        self._changed.clear()
        await self._changed.wait()
        return perf_counter() - began


async def main(home: str) -> None:
    os.environ["HOME"] = home
    began = perf_counter()
    async with Host() as host:
        reader = Ainb(await host.add(session_reader(ROOT)))
        screen = Ainb(await host.add(ROOT / "plugins/burndown"))
        await screen.render(WIDTH, HEIGHT)
        watch = Watch(host, screen)
        tasks = [asyncio.create_task(watch.draw()), asyncio.create_task(watch.press())]
        await reader.cli("sessions", ["--wait", "600"])
        everything = perf_counter() - began
        tasks.pop().cancel()  # nobody asks for more from here on
        (program,) = [process for process in below(os.getpid()) if _is_reader(process.pid)]
        memory = holdings(program.pid)["memory"] / 1024
        await asyncio.sleep(2)
        with _added(home):
            live = await watch.change()
        for _ in range(LATER):
            host.service("snapshots").put("sessions.refresh_request", b'{"hard":true}')
            await asyncio.sleep(1)
            await reader.cli("sessions", ["--wait", "600"])
        later = holdings(program.pid)["memory"] / 1024
        for task in tasks:
            task.cancel()
    told = {
        "first": (watch.first or perf_counter()) - began,
        "all": everything,
        "frame": max(watch.frames) * 1e3,
        "key": max(watch.keys) * 1e3,
        "live": live,
        "memory": memory,
        "later": later,
    }
    print(json.dumps(told))


def _is_reader(pid: int) -> bool:
    words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    return b"python" in words[0] and words[-2].endswith(b"session-reader/main.py")


@contextmanager
def _added(home: str) -> Iterator[None]:
    """Another log, for a while."""
    log = Path(home, ".claude/projects/new/new.jsonl")
    log.parent.mkdir(exist_ok=True)
    log.write_bytes(_line())
    yield
    log.unlink()


def _line() -> bytes:
    usage = {"input_tokens": 10**11, "output_tokens": 1}
    message = {"id": "new", "model": "gpt-5", "usage": usage}
    told = {"type": "assistant", "timestamp": "2026-01-01T00:00:00.000Z", "message": message}
    return json.dumps(told).encode() + b"\n"


asyncio.run(main(sys.argv[1]))
