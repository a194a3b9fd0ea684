"""What /proc tells about processes: what one holds, who is below it, who still lives."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

PROC = Path("/proc")


def holdings(pid: int) -> dict[str, int]:
    """What a process holds now: memory in KiB, descriptors, threads."""
    resident = re.search(r"^Rss: +(\d+) kB", (PROC / f"{pid}/smaps_rollup").read_text(), re.MULTILINE)
    assert resident is not None
    return {
        "memory": int(resident[1]),
        "fds": len(os.listdir(PROC / f"{pid}/fd")),
        "threads": len(os.listdir(PROC / f"{pid}/task")),
    }


class Process(NamedTuple):
    started: int
    """In ticks since the boot. With the pid it names a process for ever: pids alone come again."""
    pid: int
    parent: int
    name: str


def running() -> set[Process]:
    """Every process that is more than a zombie, with the parent it has now."""
    return {process for entry in os.listdir(PROC) if entry.isdigit() and (process := _read(entry))}


def _read(pid: str) -> Process | None:
    try:
        stat = (PROC / pid / "stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    name, _, rest = stat.partition("(")[2].rpartition(")")
    fields = rest.split()
    return None if fields[0] in "ZX" else Process(int(fields[19]), int(pid), int(fields[1]), name)


def below(pid: int) -> list[Process]:
    """The descendants of a process, generation by generation, in each the eldest first."""
    everyone = sorted(running())
    found: list[Process] = []
    parents = {pid}
    while parents:
        children = [process for process in everyone if process.parent in parents]
        found += children
        parents = {child.pid for child in children}
    return found


def survivors(of: Iterable[Process]) -> list[Process]:
    """Those that still live; an orphan has another parent than before."""
    alive = {(process.pid, process.started) for process in running()}
    return [process for process in of if (process.pid, process.started) in alive]


def kill(processes: Iterable[Process]) -> None:
    """Those that still live, and no others that have got their pids."""
    for process in survivors(processes):
        try:
            os.kill(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            continue  # it has ended by itself since
