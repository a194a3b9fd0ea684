"""`python -m benchmarks.fresh.session_costs HOME plain|plughost`: what reading all session logs takes."""

from __future__ import annotations

import asyncio
import json
import os
import resource
import subprocess
import sys
from time import perf_counter

import msgspec

from benchmarks.paths import PLAIN_SESSIONS, ROOT


class Chunk(msgspec.Struct):
    partial: bool
    is_final: bool


def spent() -> float:
    """Seconds of processors, of this process and its children."""
    both = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(used.ru_utime + used.ru_stime for used in both)


def plain(home: str) -> dict[str, float]:
    before, began = spent(), perf_counter()
    subprocess.run([*PLAIN_SESSIONS, home], check=True, stdout=subprocess.DEVNULL)
    return {"cpu": spent() - before, "wall": perf_counter() - began}


async def ours(home: str) -> dict[str, float]:
    """From a host's start to the last chunk of the first complete batch, imports included."""
    began = perf_counter()
    from benchmarks.fresh.session_reader import reader
    from plughost import Host

    os.environ["HOME"] = home
    complete = asyncio.Event()

    def hear(payload: bytes) -> None:
        chunk = msgspec.msgpack.decode(payload, type=Chunk)
        if chunk.is_final and not chunk.partial:
            complete.set()

    async with Host() as host:
        host.service("snapshots").listen("sessions.usage_data", hear)
        await host.add(reader(ROOT))
        await complete.wait()
        wall = perf_counter() - began
    return {"cpu": spent(), "wall": wall}


if __name__ == "__main__":
    home, who = sys.argv[1:]
    print(json.dumps(plain(home) if who == "plain" else asyncio.run(ours(home))))
