"""Does what lines on stdin say, and answers each with a line of JSON. `contenders.apart` has the list."""

from __future__ import annotations

import asyncio
import gc
import json
import platform
import sys
from collections.abc import Callable
from importlib.metadata import version
from time import perf_counter
from typing import Any

from benchmarks.contenders.contender import Caller, Contender

SIZE = 100
"""Of the first call to a plugin."""


async def obey(plugin: Callable[[], Contender], *distributions: str, **more: str) -> None:
    """`plugin` makes a contender with a plugin of its own. The rest says what is measured."""
    orders = Orders(plugin, {**{name: version(name) for name in distributions}, **more})
    # The read waits in a thread: the session's own tasks go on meanwhile.
    while line := await asyncio.to_thread(sys.stdin.readline):
        order = json.loads(line)
        print(json.dumps(await getattr(orders, order.pop("do"))(**order)), flush=True)
    await orders.close()


class Orders:
    def __init__(self, plugin: Callable[[], Contender], versions: dict[str, str]) -> None:
        self._plugin = plugin
        self._versions = versions
        self._open: list[Contender] = []

    async def hello(self) -> dict[str, str]:
        return {"Python": platform.python_version(), **self._versions}

    async def open(self, count: int) -> list[float]:
        took: list[float] = []
        for _ in range(count):
            began = perf_counter()
            contender = self._plugin()
            await contender.open()
            await contender.check(SIZE)
            took.append(perf_counter() - began)
            self._open.append(contender)
        return took

    async def close(self) -> None:
        while self._open:
            await self._open.pop().close()

    async def tidy(self) -> None:
        gc.collect()

    async def one_at_a_time(self, size: int, seconds: float) -> list[float]:
        return await self._open[-1].one_at_a_time(size, seconds)

    async def in_flight(self, size: int, width: int, seconds: float) -> float:
        return await self._open[-1].in_flight(size, width, seconds)

    async def attempt(self, method: str, text: str, limit: float) -> dict[str, Any]:
        contender = self._open[-1]
        assert isinstance(contender, Caller)
        try:
            answer = await asyncio.wait_for(contender.call({"text": text}, method), limit)
        except TimeoutError:
            return {"outcome": "hangs", "said": ""}
        except Exception as error:
            return {"outcome": "error", "said": f"{type(error).__name__}: {error}"}
        return {"outcome": "answer", "said": contender.text(answer)[:80]}
