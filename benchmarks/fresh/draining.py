"""`python -m benchmarks.fresh.draining FOLDER [URL]`: hands deliveries that wait to a hook that does nothing.

It begins with a line on its stdin and ends with its stdin. Its lines are how many it has
delivered so far; the last one is that all results are stored.
"""

from __future__ import annotations

import asyncio
import sys

from benchmarks.backlog import delivering
from benchmarks.databases import Place

TELL_EVERY = 0.01


async def main(place: Place) -> None:
    delivered = told = 0

    def count() -> None:
        nonlocal delivered
        delivered += 1

    database = place.database()
    await database.open()
    async with delivering(database, count) as deliveries:
        print("ready", flush=True)
        await asyncio.to_thread(sys.stdin.readline)
        deliveries.start()
        ended = asyncio.create_task(asyncio.to_thread(sys.stdin.readline))
        while not ended.done():
            if told != delivered:
                told = delivered
                print(told, flush=True)
            await asyncio.wait([ended], timeout=TELL_EVERY)
        await deliveries.close()
        print("stored", flush=True)
    await database.close()


asyncio.run(main(Place(*sys.argv[1:])))
