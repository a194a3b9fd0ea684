"""What `import plughost` adds to the start of a program."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from time import perf_counter

from benchmarks.effort import Effort
from benchmarks.sheet import Sheet
from benchmarks.turns import turns

NOTHING = "pass"
OURS = "import plughost"
HOST = "from plughost import Host"
PROGRAMS = (NOTHING, OURS, "import asyncio, msgspec", HOST)
"""Importing us imports nothing; what a host takes is mostly asyncio and msgspec."""

ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
"""An installed package has its bytecode; ours is to have it too."""


def measure(effort: Effort, peers: Path | None) -> list[Sheet]:
    sheet = Sheet("import", "a whole interpreter each", {"time": "ms"}, PROGRAMS)
    subprocess.run([sys.executable, "-c", HOST], check=True, env=ENVIRONMENT)  # bytecode is compiled once
    for program in turns(sheet.name, PROGRAMS, effort.imports):
        began = perf_counter()
        subprocess.run([sys.executable, "-c", program], check=True, env=ENVIRONMENT)
        sheet.add(program, time=(perf_counter() - began) * 1e3)
    return [sheet]
