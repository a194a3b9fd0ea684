"""A process that reveals a secret again and again, and prints each new value, until its stdin is closed.

Arguments: the URL of the database and the URI of the secret; the master key is in MASTER_KEY, in hex.
"""

from __future__ import annotations

import asyncio
import sys

from plughost.clock import best_clock
from plughost.gateway.secrets.gateway_secrets import GatewaySecrets
from plughost.gateway.secrets.master_key_source import load_master_keys
from plughost.vai.database.open_database import open_database
from plughost.vai.database.sealing import Seal
from tests.gateway.secrets.conftest import use


async def main(url: str, uri: str) -> None:
    loop = asyncio.get_running_loop()
    database, clock = open_database("unused", url), best_clock(loop)
    secrets = GatewaySecrets(database, Seal(*await load_master_keys(["env:MASTER_KEY"])), clock)
    ended, last = asyncio.Event(), ""
    loop.add_reader(sys.stdin, ended.set)
    while not ended.is_set():
        if (value := await secrets.reveal(uri, use())) != last:
            print(value, flush=True)
            last = value
        await asyncio.sleep(0.01)
    loop.remove_reader(sys.stdin)
    await secrets.close()
    await database.close()
    clock.close()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
