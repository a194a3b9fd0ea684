"""`python -m benchmarks.peers.on_uvloop COMMAND...`: plughost as ever, on an event loop in C."""

from __future__ import annotations

import sys

import uvloop

from benchmarks.contenders.ours import Ours
from benchmarks.peers.obedience import obey


async def main() -> None:
    ours = Ours("on uvloop", tuple(sys.argv[1:]), "lines")
    await ours.open()
    await obey(ours.call)
    await ours.close()


uvloop.run(main())
