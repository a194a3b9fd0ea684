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
    return _in_orders(what, [random.sample(everyone, len(everyone)) for _ in range(rounds)])


def swapped(what: str, everyone: Sequence[T], rounds: int) -> Iterator[T]:
    """In every second round backwards: in a few rounds, chance could let one go first each time."""
    return _in_orders(what, [everyone if number % 2 == 0 else everyone[::-1] for number in range(rounds)])


def _in_orders(what: str, orders: Sequence[Sequence[T]]) -> Iterator[T]:
    for number, order in enumerate(orders, 1):
        end = "\n" if number == len(orders) else "\r"
        print(f"{what}: round {number} of {len(orders)}", end=end, file=sys.stderr, flush=True)
        for one in order:
            gc.collect()  # nobody pays for the garbage of who was before
            yield one


@asynccontextmanager
async def opened(everyone: Sequence[Contender]) -> AsyncIterator[None]:
    async with AsyncExitStack() as stack:
        for contender in everyone:
            await contender.open()
            stack.push_async_callback(contender.close)
        yield
