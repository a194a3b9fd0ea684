"""Screens in this terminal, until somebody leaves or the terminal does."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import Sequence

from plughost.contracts.contract import PluginSpec
from plughost.host import Host
from plughost.terminal.app import ScreenApp
from plughost.terminal.feed import Feed
from plughost.terminal.lines import Tab
from plughost.terminal.stage import fed, stage

PATIENCE = 15.0
"""For a goodbye that nobody may be there to hear: plugins have their grace in it."""
HUNG_UP, ENDED = 128 + signal.SIGHUP, 128 + signal.SIGTERM


async def run(
    screens: Sequence[tuple[PluginSpec, str]], others: Sequence[PluginSpec], rate: float
) -> int | None:
    """Show these screens; the exit code, if there is any."""
    specs = {spec.name: spec for spec, _ in screens}
    async with stage([*specs.values()], others) as (host, plugins, _):
        feeds = {plugin.name: Feed(host, plugin, rate) for plugin in plugins}
        leaving = Leaving(host)
        app = ScreenApp([Tab(feeds[spec.name], name) for spec, name in screens], leaving.hang_up)
        leaving.on_signals(app)
        async with fed(host, [*feeds.values()]):
            await app.run_async()
        for feed in feeds.values():
            feed.kill_if_hung()
    return app.return_code


class Leaving:
    """Ways to end that do not wait for a terminal."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._closing: asyncio.Task[None] | None = None

    def on_signals(self, app: ScreenApp) -> None:
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGHUP, self.hang_up)
        loop.add_signal_handler(signal.SIGTERM, self._end, app)

    def hang_up(self) -> None:
        """The terminal is gone: the library would say goodbye to it, and may wait for ever."""
        if self._closing is None:
            _exit_at_last(HUNG_UP)
            self._closing = asyncio.ensure_future(self._host.close())
            self._closing.add_done_callback(lambda _: os._exit(HUNG_UP))

    def _end(self, app: ScreenApp) -> None:
        _exit_at_last(ENDED)
        app.exit()


def _exit_at_last(code: int) -> None:
    """Whatever somebody waits for; no plugin outlives its host."""
    timer = threading.Timer(PATIENCE, os._exit, (code,))
    timer.daemon = True
    timer.start()
