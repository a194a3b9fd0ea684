"""On which CPUs we and the processes we start may run."""

from __future__ import annotations

import os
from collections.abc import Iterator, Set
from contextlib import contextmanager


@contextmanager
def pinned_to(cpus: Set[int]) -> Iterator[None]:
    """Only on these, inherited by what is started meanwhile."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cpus)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def two_sides() -> tuple[set[int], set[int]]:
    """One CPU for what is measured, and the others for what is not; with one CPU, the same."""
    first, *others = sorted(os.sched_getaffinity(0), reverse=True)
    return {first}, set(others) or {first}
