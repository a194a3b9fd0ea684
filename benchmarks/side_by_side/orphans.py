"""A host is killed with SIGKILL: who is left of its plugin?"""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

from benchmarks import processes
from benchmarks.contenders.apart import Apart
from benchmarks.side_by_side.entrants import Entrant
from benchmarks.side_by_side.trouble import LIMIT, SETTLED, Came

LINGER = 2.0
"""Seconds that orphans have to notice that they are some."""

IDLE = "host killed, plugin idle"
WORKING = "host killed, plugin at work"
PARENT = "host killed, plugin has a child"
CASES = (IDLE, WORKING, PARENT)


def make(entrant: Entrant) -> Iterator[Came]:
    hosts = {case: entrant.apart() for case in CASES}
    families: dict[str, list[processes.Process]] = {}
    with ExitStack() as stack:
        with ThreadPoolExecutor() as pool:
            for host in pool.map(_prepared, hosts.values(), hosts):
                stack.callback(host.end)
        time.sleep(SETTLED)
        for case, host in hosts.items():
            families[case] = processes.below(host.pid)
            stack.callback(processes.kill, families[case])
            host.kill()
        time.sleep(LINGER)
        for case, family in families.items():
            left = processes.survivors(family)
            yield case, "left" if left else "gone", ", ".join(one.name for one in left), LINGER


def _prepared(host: Apart, case: str) -> Apart:
    host.start()
    host.do("open", count=1)
    if case == WORKING:
        host.tell("attempt", method="hang", text="", limit=LIMIT)
    elif case == PARENT:
        host.do("attempt", method="child", text="", limit=LIMIT)
    return host
