"""Runs the terminal UI until somebody quits or the terminal is gone."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager

from plughost import interrupt
from plughost.screens.frame_source import FrameSource
from plughost.screens.session import ScreenSession, follow_plugins
from plughost.screens.terminal.app import ScreenApp
from plughost.screens.terminal.chrome import TabLabel
from plughost.screens.terminal.driver import TerminalDriver

EXIT_TIMEOUT = 15.0
"""Seconds for an orderly shutdown, which includes the grace periods of plugins."""
HUNG_UP = 128 + signal.SIGHUP
LOST = 3
"""The exit code when there is no host to answer, as for every command."""


async def run(
    session: AbstractAsyncContextManager[ScreenSession], screens: Sequence[tuple[str, str]], rate: float
) -> int | None:
    """Show these screens (plugin, screen) of a session; returns the exit code, if there is one. HostLost, or
    why else a running host went away, once the terminal is restored."""
    async with session as (plugins, _, close):
        sources = {plugin.name: FrameSource(plugin, rate) for plugin in plugins}
        shutdown = ShutdownHandler(close)
        app = ScreenApp([TabLabel(sources[plugin], name) for plugin, name in screens], shutdown.hang_up)
        shutdown.follow(app)
        async with follow_plugins([*sources.values()], shutdown.lose):
            await app.run_async()
        for source in sources.values():
            source.kill_if_hung()
    return app.return_code


class ShutdownHandler:
    """Ends the program on signals, without waiting for a terminal that may be gone."""

    def __init__(self, close: Callable[[], Awaitable[None]]) -> None:
        """`close` closes the session."""
        self._close = close
        self._app: ScreenApp | None = None
        self._closing: asyncio.Task[None] | None = None

    def follow(self, app: ScreenApp) -> None:
        """Install the signal handlers for this app."""
        self._app = app
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGHUP, self.hang_up)
        interrupt.ask_to_end(lambda number: self._end(app, 128 + number), signal.SIGINT, signal.SIGTERM)
        interrupt.restore_with(self._restore)

    def hang_up(self) -> None:
        """The terminal is gone: close the session and exit. Textual would write to the terminal, and may
        block for ever."""
        if self._closing is None:
            _exit_after_timeout(HUNG_UP)
            if self._terminal is not None:
                self._terminal.lose()
            self._closing = asyncio.ensure_future(self._close())
            self._closing.add_done_callback(self._gone)

    def _gone(self, _: asyncio.Task[None]) -> None:
        self._restore()  # the terminal may still exist: SIGHUP can come from elsewhere
        os._exit(HUNG_UP)

    def _restore(self) -> None:
        if self._terminal is not None:
            self._terminal.restore()

    @property
    def _terminal(self) -> TerminalDriver | None:
        return self._app.terminal if self._app is not None else None

    def lose(self) -> None:
        """The running host is gone: leave the screen."""
        if self._app is not None:
            self._end(self._app, LOST)

    def _end(self, app: ScreenApp, code: int) -> None:
        _exit_after_timeout(code)
        app.exit(return_code=code)


def _exit_after_timeout(code: int) -> None:
    """Exit after a timeout, whatever is still waiting; no plugin outlives its host."""
    timer = threading.Timer(EXIT_TIMEOUT, os._exit, (code,))
    timer.daemon = True
    timer.start()
