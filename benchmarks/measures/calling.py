"""How long `plughost call` takes from the shell, beside an interpreter that only imports a host."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from time import perf_counter

from benchmarks.effort import Effort
from benchmarks.measures.importing import ENVIRONMENT, HOST
from benchmarks.paths import C_ECHO
from benchmarks.sheet import Sheet
from benchmarks.turns import turns

NAME = "plughost call"
OURS = "plughost call, C plugin"
CALL = ("call", "--contract", "mcptest", "echo", "{}", "--", *C_ECHO, "lines")
COMMANDS = {
    HOST: (sys.executable, "-c", HOST),
    OURS: (str(Path(sys.executable).parent / "plughost"), *CALL),
}


def measure(effort: Effort, peers: Path | None) -> list[Sheet]:
    sheet = Sheet(NAME, "a whole process each, until it has ended", {"time": "ms"}, COMMANDS, base=HOST)
    for name in COMMANDS:
        _run(name)  # bytecode is compiled once
    for name in turns(NAME, [*COMMANDS], effort.imports):
        sheet.add(name, time=_run(name) * 1e3)
    return [sheet]


def _run(name: str) -> float:
    began = perf_counter()
    subprocess.run(COMMANDS[name], check=True, env=ENVIRONMENT, stdout=subprocess.DEVNULL)
    return perf_counter() - began
