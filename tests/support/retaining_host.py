"""`python -m tests.support.retaining_host PLUGIN STORAGE`: a host that retains notes until it is killed.

Each line on stdout is the content of a note that was acknowledged.
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

import plughost
from plughost.contracts.kaged.contract import Kaged
from plughost.services.storage.service import Storage
from tests.support.notes import HERE, spec

MOST = 60
"""No more than one recall shows, however late the killer is."""


async def main(place: Path, storage: Path) -> None:
    async with plughost.Host() as host:
        host.provide("storage", Storage(storage))
        notes = Kaged(await host.add(spec(place, "declared")))
        for number in range(MOST):
            content = f"note {number}"
            await notes.tool("retain", {"content": content, "tags": ["kept"]}, context=HERE)
            os.write(1, f"{content}\n".encode())
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), Path(sys.argv[2])))
