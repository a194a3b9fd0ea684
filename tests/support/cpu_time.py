"""CPU time of a piece of work, measured so that a busy machine cannot fail a test.

A virtual machine that is paused charges the pause to whoever runs just then. Code that is too slow is slow
in every run, so the best of a few runs decides.
"""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def within_cpu_seconds(seconds: float, work: Callable[[], T], tries: int = 4) -> T:
    """Runs `work` until one run takes less than `seconds` of this thread's CPU time, and returns its result."""
    taken = []
    for _ in range(tries):
        began = time.thread_time()
        result = work()
        taken.append(time.thread_time() - began)
        if taken[-1] < seconds:
            return result
    raise AssertionError(f"every run took more than {seconds} s of CPU time: {taken}")
