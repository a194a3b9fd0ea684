"""The build command of `plughost dev`: runs it, shows its output, and tells its outputs from source
changes."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from pathlib import Path

from plughost.cli.dev.file_watch import Look, changed
from plughost.cli.ui.dev_output import DevOutput
from plughost.engine.io.channel import CHUNK
from plughost.engine.io.stderr import StderrTail

OUTPUTS = ("bin", "build", "dist", "out", "target")
"""Folders at the top of the plugin's own that builds write to."""


class Build:
    """A build command of the developer, run by a shell."""

    def __init__(self, command: str, folder: Path, screen: DevOutput) -> None:
        self._command = command
        self._folder = folder
        self._screen = screen
        self._outputs: set[str] = set()
        """The files that the build writes, which do not count as changes."""
        self._suspected: list[str] = []

    async def run(self) -> bool:
        """Runs the build; returns whether it succeeded."""
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
            tail = StderrTail(redactor=self._screen.redactor)
            while data := await process.stdout.read(CHUNK):
                self._show_output(tail.feed(data))
            self._show_output([tail.rest()] if tail.rest() else [])
            code = await process.wait()
        finally:
            _end(process)
            await process.wait()
        seconds = time.monotonic() - start
        how = (
            "built" if code == 0 else f"! the build failed with exit code {code}: the plugin is not restarted"
        )
        self._screen.show("built", f"{how} ({seconds:.1f} s)", exit_code=code, seconds=seconds)
        return code == 0

    def _show_output(self, lines: list[str]) -> None:
        for line in lines:
            self._screen.show("build_output", f"  {line}", line=line)

    def others(self, before: Look, after: Look) -> list[str]:
        """The files that somebody else changed during the build, as far as can be known: a new file, or one
        that two builds in a row have changed, counts as an output of the build."""
        found = self.only_sources(changed(before, after))
        self._outputs.update(path for path in found if path not in before or path in self._suspected)
        self._suspected = self.only_sources(found)
        return self._suspected

    def only_sources(self, paths: list[str]) -> list[str]:
        """The paths that are not outputs of the build."""
        return [path for path in paths if path not in self._outputs and path.split(os.sep)[0] not in OUTPUTS]


def _end(process: asyncio.subprocess.Process) -> None:
    """Kills the build and everything it started that is still running."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
