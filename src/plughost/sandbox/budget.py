"""Limits, and what keeps each of them here."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from plughost.guard.powers import Limits

RLIMITS = {
    "processes": "nproc",
    "open_files": "nofile",
    "file_size": "fsize",
    "cpu_seconds": "cpu",
    "memory": "data",
}
"""The kernel's limits of one process. `nproc` is all of a user's, and a sandbox has a user of its own."""


class Budget(msgspec.Struct, frozen=True):
    rlimits: tuple[tuple[str, int], ...]
    """For the launcher's inner step."""
    summed: int | None
    """Bytes of memory that the host's meter holds the whole tree to; None where a control group does."""
    kept: Mapping[str, str]
    """For each limit that is set, what keeps it."""


def plan(limits: Limits, *, grouped: bool, own_tmp: bool) -> Budget:
    """`grouped`: there is a control group. `own_tmp`: /tmp is a file system of the plugin's own."""
    values: dict[str, int | None] = msgspec.structs.asdict(limits)
    rlimits = tuple((word, value) for name, word in RLIMITS.items() if (value := values[name]) is not None)
    kept = {name: f"rlimit {word}" for name, word in RLIMITS.items() if values[name] is not None}
    if limits.memory is not None:
        whole = "control group" if grouped else "summed over all processes by the host, a few times a second"
        kept["memory"] = f"{whole}; rlimit data for each process"
    if limits.processes is not None and grouped:
        kept["processes"] = "control group"
    if limits.scratch is not None:
        kept["scratch"] = "size of its /tmp" if own_tmp else "nothing"
    return Budget(rlimits, None if grouped else limits.memory, kept)
