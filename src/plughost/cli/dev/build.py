"""A build command, told as it runs, and which files are its own."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from pathlib import Path

from plughost.cli.dev.file_watch import Look, changed
from plughost.cli.ui.dev_output import DevOutput
from plughost.engine.channel import CHUNK
from plughost.engine.stderr import StderrTail

OUTPUTS = ("bin", "build", "dist", "out", "target")
"""Folders that builds write to, at the top of the plugin's own."""


class Build:
    """A command of the developer's own, so a shell runs it."""

    def __init__(self, command: str, folder: Path, screen: DevOutput) -> None:
        self._command = command
        self._folder = folder
        self._screen = screen
        self._made: set[str] = set()
        """What it writes, which is not taken for a change."""
        self._suspected: list[str] = []

    async def run(self) -> bool:
        """Whether it went well."""
        start = time.monotonic()
        self._screen.show("building", f"building: {self._command}", command=self._command)
        process = await asyncio.create_subprocess_shell(
            self._command,
            cwd=self._folder,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            start_new_session=True,
        )
        assert process.stdout is not None
        try:
            said = StderrTail(redactor=self._screen.hidden)
            while data := await process.stdout.read(CHUNK):
                self._tell(said.feed(data))
            self._tell([said.rest()] if said.rest() else [])
            code = await process.wait()
        finally:
            _end(process)
            await process.wait()
        seconds = time.monotonic() - start
        how = "built" if code == 0 else f"! the build failed with exit code {code}: nothing is started anew"
        self._screen.show("built", f"{how} ({seconds:.1f} s)", exit_code=code, seconds=seconds)
        return code == 0

    def _tell(self, lines: list[str]) -> None:
        for line in lines:
            self._screen.show("build_output", f"  {line}", line=line)

    def others(self, before: Look, after: Look) -> list[str]:
        """What somebody else has changed during the build, as far as can be told: a file that is new, or that
        two builds in a row have changed, is the build's own."""
        found = self.only_sources(changed(before, after))
        self._made.update(path for path in found if path not in before or path in self._suspected)
        self._suspected = self.only_sources(found)
        return self._suspected

    def only_sources(self, paths: list[str]) -> list[str]:
        return [path for path in paths if path not in self._made and path.split(os.sep)[0] not in OUTPUTS]


def _end(process: asyncio.subprocess.Process) -> None:
    """With everything that it has started, if that is still there."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
