"""A process that has all active bindings in memory: it tells when it sees a change.

Arguments: the folder, the URL of the database or a dash, and the seconds between two looks. Each line on stdout is
the time and the binding's configuration, or null when it is not active.
"""

from __future__ import annotations

import asyncio
import sys
import time

import msgspec

from plughost.clock import LoopClock
from plughost.gateway.bindings import live_bindings
from plughost.gateway.bindings.live_bindings import LiveBindings
from plughost.vai.database.open_database import open_database


async def main(folder: str, url: str | None, binding_id: str) -> None:
    database = open_database(folder, url)
    live = LiveBindings(database, LoopClock(asyncio.get_running_loop()))
    await live.start()
    shown: object = "nothing"
    while True:
        binding = live.by_id(binding_id)
        now = None if binding is None else dict(binding.config)
        if now != shown:
            shown = now
            print(msgspec.json.encode([time.time(), now]).decode(), flush=True)
        await asyncio.sleep(0.005)


if __name__ == "__main__":
    live_bindings.LOOK_SECONDS = float(sys.argv[3])
    asyncio.run(main(sys.argv[1], None if sys.argv[2] == "-" else sys.argv[2], sys.argv[4]))
