"""Where the programs are that the benchmark runs."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
HERE = Path(__file__).parent
RESULTS = HERE / "results" / "latest.json"
SIDE_BY_SIDE = HERE / "results" / "peers.json"
PAGE = ROOT / "docs" / "benchmarks.md"
PICTURE = ROOT / "docs" / "benchmarks-peers.png"
PEERS = ROOT / ".venv-peers"
"""The environment of the peers; it is not ours."""
PROCRASTINATE = ROOT / ".venv-procrastinate"

C_ECHO = (str(HERE / "bin" / "echo"),)
C_AINB = (*C_ECHO, "ainb")
PYTHON_ECHO = (sys.executable, str(HERE / "plugins" / "echo.py"))
DISTURBER = (sys.executable, "-I", "-S", "-E", str(HERE / "plugins" / "disturber.py"))
PAINTER = (sys.executable, str(HERE / "plugins" / "painter.py"))
PLAIN = (sys.executable, "-s", "-S", "-E", str(HERE / "plugins" / "plain.py"))
PLAIN_SESSIONS = (sys.executable, "-I", "-S", "-E", str(HERE / "plugins" / "plain_sessions.py"))
FIRST_ANSWER = HERE / "plugins" / "first_answer"
SDK_FOLDER = ROOT / "sdk" / "python" / "src"
STDLIB_ECHO = (sys.executable, "-I", "-S", "-E", str(ROOT / "plugins" / "echo-mcptest" / "echo.py"))
"""The reference plugin: standard library only, and a quick start."""
