"""Programs that measure themselves, each run in a process that has done nothing before."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

from benchmarks.paths import ROOT


def run(program: str, *arguments: object) -> dict[str, Any]:
    """What the program of that name printed."""
    command = [sys.executable, "-m", f"{__name__}.{program}", *map(str, arguments)]
    said = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, check=True).stdout
    result: dict[str, Any] = json.loads(said)
    return result
