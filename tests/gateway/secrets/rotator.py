"""A process that replaces the master key, one secret at a time, and prints how many it has done.

Arguments: the folder of the database and its URL, which may be empty; the keys are in OLD_KEY and NEW_KEY, in hex.
"""

from __future__ import annotations

import asyncio
import sys

from plughost.gateway.secrets.master_key_source import load_master_key
from plughost.gateway.secrets.rotation import rotate
from plughost.vai.database.open_database import open_database
from plughost.vai.database.sealing import Seal


async def main(folder: str, url: str) -> None:
    database = open_database(folder, url or None)
    old, new = [Seal(await load_master_key(source)) for source in ("env:OLD_KEY", "env:NEW_KEY")]
    await rotate(database, old, new, batch_size=1, progress=lambda count: print(count, flush=True))
    await database.close()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
