"""A plugin of a running host, called by another program over the control socket."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Coroutine
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.contenders.contender import Caller
from benchmarks.contenders.ours import TIMEOUT
from plughost.control import ControlClient, hosts

CONFIG = """
[plugins.echo]
contract = "mcptest"
command = {command}
sandbox = "none"
max_in_flight = 256
"""


class ThroughSocket(Caller):
    """`plughost run` in a process of its own, and its client here."""

    def __init__(self, name: str, command: tuple[str, ...]) -> None:
        self.name = name
        self._command = (*command, "lines")

    async def open(self) -> None:
        self._folder = TemporaryDirectory()
        folder = Path(self._folder.name)
        quoted = [f'"{word}"' for word in self._command]
        (folder / "plughost.toml").write_text(CONFIG.format(command=f"[{', '.join(quoted)}]"))
        words = ["run", "-c", str(folder / "plughost.toml"), "--socket-dir", str(folder / "s")]
        self._host = subprocess.Popen(
            [sys.executable, "-m", "plughost.cli", *words],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self._host.stderr is not None
        while not (line := await asyncio.to_thread(self._host.stderr.readline)).startswith("ready"):
            assert line, "the host did not start"
        (path,) = hosts(folder / "s")
        self._client = await ControlClient(path).__aenter__()

    async def close(self) -> None:
        await self._client.close()
        self._host.terminate()
        self._host.communicate()
        self._folder.cleanup()

    def call(self, params: Any, method: str = "echo") -> Coroutine[Any, Any, Any]:
        return self._client.call("echo", method, params, timeout=TIMEOUT)
