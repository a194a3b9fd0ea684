"""Whose turn it is: everyone once a round, each round in another order."""

from __future__ import annotations

import gc
import random
import sys
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TypeVar

from benchmarks.contenders.contender import Contender

T = TypeVar("T")


def turns(what: str, everyone: Sequence[T], rounds: int) -> Iterator[T]:
    """Noise that comes and goes hits all alike. Tells how far it is."""
    for number in range(1, rounds + 1):
        end = "\n" if number == rounds else "\r"
        print(f"{what}: round {number} of {rounds}", end=end, file=sys.stderr, flush=True)
        for one in random.sample(everyone, len(everyone)):
            gc.collect()  # nobody pays for the garbage of who was before
            yield one


@asynccontextmanager
async def opened(everyone: Sequence[Contender]) -> AsyncIterator[None]:
    async with AsyncExitStack() as stack:
        for contender in everyone:
            await contender.open()
            stack.push_async_callback(contender.close)
        yield
