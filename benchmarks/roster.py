"""Who takes part in `make bench`, by name."""

from __future__ import annotations

import sys
from pathlib import Path

from benchmarks.contenders.apart import Apart
from benchmarks.contenders.bare_loop import BareLoop
from benchmarks.contenders.contender import Contender
from benchmarks.contenders.ours import Ours
from benchmarks.contenders.raw_pipe import RawPipe
from benchmarks.contenders.streams import Streams
from benchmarks.paths import C_ECHO, PYTHON_ECHO

RAW_C = "raw pipe ↔ C"
YARDSTICK = "raw pipe ↔ Python"
OURS_C = "plughost ↔ C"
OURS_PYTHON = "plughost ↔ Python"
OURS_C_AINB = "plughost ↔ C, ainb"
OURS_C_HEADERED = "plughost ↔ C, Content-Length"
OURS_PYTHON_HEADERED = "plughost ↔ Python, Content-Length"
BARE_C = "bare asyncio loop ↔ C"
BARE_PYTHON = "bare asyncio loop ↔ Python"
STREAMS = "asyncio streams ↔ Python"
UVLOOP_C = "plughost ↔ C, uvloop"
UVLOOP_PYTHON = "plughost ↔ Python, uvloop"
MCP = "MCP Python SDK, both sides"


def contenders(peers: Path | None) -> list[Contender]:
    """All of them; without an environment for the peers, all but those."""
    ours: list[Contender] = [
        RawPipe(RAW_C, C_ECHO),
        RawPipe(YARDSTICK, PYTHON_ECHO),
        Ours(OURS_C, C_ECHO, "lines"),
        Ours(OURS_PYTHON, PYTHON_ECHO, "lines"),
        Ours(OURS_C_HEADERED, C_ECHO, "content-length"),
        Ours(OURS_C_AINB, C_ECHO, "ainb"),
        Ours(OURS_PYTHON_HEADERED, PYTHON_ECHO, "content-length"),
        BareLoop(BARE_C, C_ECHO),
        BareLoop(BARE_PYTHON, PYTHON_ECHO),
        Streams(STREAMS, PYTHON_ECHO),
    ]
    on_uvloop = (sys.executable, "-m", "benchmarks.peers.plughost.client", "uvloop")
    apart: list[Contender] = [
        Apart(UVLOOP_C, (*on_uvloop, *C_ECHO)),
        Apart(UVLOOP_PYTHON, (*on_uvloop, *PYTHON_ECHO)),
    ]
    if peers is not None:
        client = "benchmarks.peers.mcp_python.client"
        apart.append(Apart(MCP, (str(peers / "bin" / "python"), "-m", client)))
    return [*ours, *apart]
