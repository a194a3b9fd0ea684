"""Reloader: applies changes of plughost.toml to the host of `plughost run`, at SIGHUP or when a file
changes."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from plughost import config
from plughost.cli.ui import output
from plughost.control import Changes, ManagedPlugins
from plughost.errors import PluginError

WATCH_INTERVAL = 0.5
"""Seconds between two looks at the watched files."""

WatchedFiles = Callable[[], list[Path]]
"""The files to watch: of a root folder, there may be others at every look."""


def config_files(file: Path | None, root: Path | None, words: Sequence[str]) -> WatchedFiles:
    """The files that say which plugins to run and how."""

    def files() -> list[Path]:
        if root is not None:
            return sorted(root.glob(f"*/{config.FILE}")) + sorted(root.glob("*/manifest.toml"))
        return [file or Path(config.FILE), *(Path(word, config.FILE) for word in words)]

    return files


class Reloader:
    """Reloads the configuration of a running host while it is open."""

    def __init__(
        self,
        managed: ManagedPlugins,
        watched: WatchedFiles | None,
        end: Callable[[], None],
        *,
        as_json: bool,
    ) -> None:
        """`end` ends the host: SIGHUP also comes when its terminal is closed."""
        self._managed = managed
        self._watched = watched
        self._end = end
        self._as_json = as_json
        self._on_terminal = sys.stdin is not None and sys.stdin.isatty()
        self._wanted = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Self:
        asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, self._on_hangup)
        self._tasks = [asyncio.create_task(self._reload_when_wanted())]
        if self._watched is not None:
            # The first look is now: a change while the plugins start is not missed.
            self._tasks.append(asyncio.create_task(self._watch(self._watched, _look(self._watched))))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _on_hangup(self) -> None:
        if self._on_terminal and not os.isatty(0):
            self._end()
        else:
            self._wanted.set()

    async def _watch(self, watched: WatchedFiles, before: dict[Path, tuple[int, int, int]]) -> None:
        while True:
            await asyncio.sleep(WATCH_INTERVAL)
            now = await asyncio.to_thread(_look, watched)
            if now != before:
                before = now
                self._wanted.set()

    async def _reload_when_wanted(self) -> None:
        while True:
            await self._wanted.wait()
            self._wanted.clear()
            try:
                self._say(await self._managed.reload_all())
            except PluginError as error:
                output.failure(error, as_json=self._as_json)
            except Exception as error:  # a bug must not end all later reloads
                output.say(f"the reload failed: {type(error).__name__}: {error}")

    def _say(self, changes: Changes) -> None:
        if self._as_json:
            return
        done = [
            f"{what} {', '.join(sorted(names))}"
            for what, names in (
                ("added", changes.added),
                ("changed", changes.changed),
                ("removed", changes.removed),
            )
            if names
        ]
        output.say(f"reloaded the configuration: {'; '.join(done) or 'nothing has changed'}")
        for name, why in sorted(changes.failed.items()):
            output.say(f"{name}: {why}")


def _look(watched: WatchedFiles) -> dict[Path, tuple[int, int, int]]:
    """The state of the files; one that cannot be read is left out."""
    seen = {}
    for path in watched():
        try:
            about = path.stat()
        except OSError:
            continue
        seen[path] = about.st_mtime_ns, about.st_size, about.st_ino
    return seen
