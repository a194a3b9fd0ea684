"""Where the numbers come from: they mean little elsewhere."""

from __future__ import annotations

import os
import platform
import re
from datetime import UTC, datetime
from pathlib import Path

import msgspec


def machine() -> dict[str, str | int | float]:
    model = re.search(r"^model name\s*: (.+)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    return {
        "when": datetime.now(UTC).isoformat(timespec="seconds"),
        "cpu": model[1] if model else platform.machine(),
        "cpus": len(os.sched_getaffinity(0)),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "msgspec": msgspec.__version__,
        "load": os.getloadavg()[0],
    }
