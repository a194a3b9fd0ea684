"""`python -m benchmarks.peers.raw_pipe.client COMMAND...`: no host at all."""

from __future__ import annotations

import asyncio
import sys

from benchmarks.contenders.raw_pipe import RawPipe
from benchmarks.peers.obedience import obey

asyncio.run(obey(lambda: RawPipe("raw pipe", tuple(sys.argv[1:]))))
