"""`python -m tests.support.storage_writer FOLDER PLUGINS`: a host whose plugins all store, until it is killed.

Each acknowledged step is a line `PLUGIN STEP` on stdout: by then the step's own key is stored, the key of two
steps before is deleted, and `counter` holds the step.
"""

from __future__ import annotations

import asyncio
import os
import sys

import plughost
from plughost.services.storage.service import Storage
from tests.support.storage_client import Client


def padded(step: int) -> bytes:
    """A value of the step, sometimes of many pages."""
    return b'"%d %s"' % (step, b"x" * (step * 7919 % 9000))


async def store_on(client: Client) -> None:
    step = int(await client.get("counter") or b"0")
    while True:
        step += 1
        await asyncio.gather(
            client.set(f"step{step}", padded(step)),
            client.delete(f"step{step - 2}"),
            client.set("counter", b"%d" % step),
        )
        os.write(1, f"{client.caller.name} {step}\n".encode())


async def main(folder: str, plugins: int) -> None:
    async with plughost.Host() as host:
        host.provide("storage", Storage(folder))
        clients = [Client(host.service("storage"), f"p{number}") for number in range(plugins)]
        os.write(1, b"ready 0\n")
        await asyncio.gather(*(store_on(client) for client in clients))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2])))
