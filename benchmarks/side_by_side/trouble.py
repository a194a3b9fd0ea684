"""A plugin misbehaves while its host waits for an answer."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack
from time import perf_counter

from benchmarks import processes
from benchmarks.contenders.apart import Apart, Failed
from benchmarks.side_by_side.entrants import Entrant

LIMIT = 5.0
"""Seconds after which a call counts as hanging."""
SLOW = 20.0
"""The same for a large answer: to be slow is not to hang."""
SETTLED = 0.2
"""Seconds after which a call is surely in the plugin's hands."""
HUGE = (16 << 20) - 4096
"""A text that makes a message of just under 16 MiB, with everybody's wrapping."""

KILLED = "plugin killed in mid-call"
NOISE = "plugin prints a line in mid-call"
NEXT = "the call after that line"
MESSAGE = "16 MiB answer"
TROUBLES = (KILLED, NOISE, NEXT, MESSAGE)

Came = tuple[str, str, str, float]
"""What happened, what came of it, in which words, after how many seconds."""


def make(entrant: Entrant) -> Iterator[Came]:
    """Each row with a plugin of its own; with a host of its own, too, when the one before has died of it."""
    with ExitStack() as stack:
        host: Apart | None = None
        for troubles in ((NOISE, NEXT), (MESSAGE,), (KILLED,)):
            if host is None or not host.lives:
                host = entrant.apart()
                stack.enter_context(host.started())
            yield from _with_plugin(host, *troubles)


def _with_plugin(apart: Apart, *troubles: str) -> Iterator[Came]:
    apart.do("open", count=1)
    for trouble in troubles:
        began = _begin(apart, trouble)
        try:
            heard = apart.hear(2 * SLOW)
        except Failed as failed:
            heard = {"outcome": "error", "said": f"the host: {failed.why}"}
        # The clock is ours, and so the same for every language.
        yield trouble, heard["outcome"], heard["said"], perf_counter() - began


def _begin(apart: Apart, trouble: str) -> float:
    """When it began."""
    if trouble == KILLED:
        *_, plugin = processes.below(apart.pid)  # the one opened last, below whatever holds it
        apart.tell("attempt", method="hang", text="", limit=LIMIT)
        time.sleep(SETTLED)
        began = perf_counter()
        os.kill(plugin.pid, signal.SIGKILL)
        return began
    began = perf_counter()
    if trouble == MESSAGE:
        apart.tell("attempt", method="huge", text=str(HUGE), limit=SLOW)
    else:
        apart.tell("attempt", method="noise" if trouble == NOISE else "echo", text="still here", limit=LIMIT)
    return began
