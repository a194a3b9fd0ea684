"""`python -m benchmarks.peers.procrastinate.drain URL COUNT CONCURRENCY`: jobs that wait, and a worker.

The worker is as its documentation shows; nothing is logged, and finished jobs are kept, as ours are.
"""

from __future__ import annotations

import asyncio
import json
import logging
import sys
from time import perf_counter

from procrastinate import App, PsycopgConnector

BATCH = 1000


async def main(url: str, count: int, concurrency: int) -> None:
    # A connection for each job at work, and some for the worker itself.
    app = App(connector=PsycopgConnector(conninfo=url, min_size=concurrency + 4, max_size=concurrency + 4))
    done = 0

    @app.task(name="nothing")
    async def nothing(number: int) -> None:
        nonlocal done
        done += 1

    async with app.open_async():
        await app.schema_manager.apply_schema_async()
        for first in range(0, count, BATCH):
            numbers = range(first, min(first + BATCH, count))
            await nothing.batch_defer_async(*({"number": number} for number in numbers))
        await app.connector.execute_query_async("ANALYZE")
        began = perf_counter()
        await app.run_worker_async(concurrency=concurrency, wait=False, listen_notify=False)
        took = perf_counter() - began
    assert done == count, done
    print(json.dumps({"rate": count / took}))


logging.disable()
asyncio.run(main(sys.argv[1], *map(int, sys.argv[2:])))
