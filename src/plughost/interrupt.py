"""Handling of Ctrl-C (SIGINT) in commands: the first one ends the command, the second one kills its plugins.

Every command runs its coroutine with `run`. A command that needs more than to be cancelled registers a
handler with `ask_to_end`. A command that waits for plugins to end uses `close`, which prints the names of
those plugins.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
from collections.abc import Callable, Coroutine
from contextlib import suppress
from contextvars import ContextVar
from typing import Any, TypeVar

from plughost._util.text import escape_controls
from plughost.host import Host, kill_all

T = TypeVar("T")

FORCED_EXIT_DELAY = 2.0
"""Seconds from a second Ctrl-C until the process exits, whatever it waits for. Plugins end with the
process."""
ONE_SHOT_GRACE = 2.0
"""Seconds that a plugin has to end, at most, in a command that makes a single call."""
WAIT_NOTICE_DELAY = 0.5
"""Seconds for plugins to end before a command prints which ones it waits for."""


class Interrupts:
    """The signal handlers of one command, and the signals that it has received."""

    def __init__(self) -> None:
        self.count = 0
        """How many signals were received; at least 1 while the command closes its host by itself."""
        self.received = False
        self.number = signal.SIGINT
        """The signal received last."""
        self.restore: Callable[[], object] = lambda: None
        """Restores the terminal, for an exit that unwinds nothing."""
        self._on_first: Callable[[signal.Signals], object] = self._cancel
        self._task: asyncio.Task[Any] | None = None
        self._exit_timer: threading.Timer | None = None

    async def around(self, work: Coroutine[Any, Any, T]) -> T:
        """Run `work`. Ctrl-C cancels it, unless the command registers another handler."""
        self._task = asyncio.current_task()
        _CURRENT.set(self)
        if _is_main_thread() and signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
            self.watch(self._cancel, signal.SIGINT)
        return await work

    def watch(self, first: Callable[[signal.Signals], object], *numbers: signal.Signals) -> None:
        """Call `first` for the first of these signals, in place of cancelling the command."""
        self._on_first = first
        for number in numbers:
            asyncio.get_running_loop().add_signal_handler(number, self._on_signal, number)

    def done(self) -> None:
        """Cancel the forced exit: the command has ended."""
        if self._exit_timer is not None:
            self._exit_timer.cancel()

    def _on_signal(self, number: signal.Signals) -> None:
        self.count += 1
        self.received, self.number = True, number
        if self.count == 1:
            self._on_first(number)
        elif self.count == 2:
            self._force()
        else:
            self._exit_now()

    def _cancel(self, number: signal.Signals) -> None:
        if self._task is not None:
            self._task.cancel()

    def _force(self) -> None:
        self._exit_timer = threading.Timer(FORCED_EXIT_DELAY, self._exit_now)
        self._exit_timer.daemon = True
        self._exit_timer.start()
        kill_all()
        if self._task is not None:
            self._task.cancel()

    def _exit_now(self) -> None:
        try:
            self.restore()
        finally:
            os._exit(128 + self.number)


_CURRENT: ContextVar[Interrupts | None] = ContextVar("interrupts", default=None)


def run(work: Coroutine[Any, Any, T]) -> T:
    """Run the coroutine of a command, as `asyncio.run` does.

    The first Ctrl-C cancels it, and KeyboardInterrupt is raised at its end. The second one kills every plugin
    and exits with the status 130, after `FORCED_EXIT_DELAY` seconds at the latest.
    """
    interrupts = Interrupts()
    try:
        result = asyncio.run(interrupts.around(work))
    except asyncio.CancelledError:
        if not interrupts.received:
            raise
        raise KeyboardInterrupt from None
    finally:
        interrupts.done()
        if interrupts.received:
            signal.signal(signal.SIGINT, signal.SIG_IGN)  # already exiting: another Ctrl-C changes nothing
        if interrupts.count > 1 and interrupts.received:
            raise SystemExit(128 + interrupts.number) from None
    return result


def ask_to_end(first: Callable[[signal.Signals], object], *numbers: signal.Signals) -> None:
    """Call `first` for the first of these signals, in place of cancelling the running command."""
    _interrupts().watch(first, *numbers)


def restore_with(restore: Callable[[], object]) -> None:
    """Register the function that restores the terminal, for an exit that unwinds nothing."""
    _interrupts().restore = restore


async def close(host: Host) -> None:
    """Close a host. If that takes long, the names of the plugins that still run are printed. Ctrl-C kills
    them, even if it is the first one."""
    interrupts = _interrupts()
    interrupts.count = max(interrupts.count, 1)
    notice = asyncio.get_running_loop().call_later(WAIT_NOTICE_DELAY, _print_waiting, host)
    try:
        await host.close()
    finally:
        notice.cancel()


def _interrupts() -> Interrupts:
    """The Interrupts of the running command; new ones in a coroutine that was not started with `run`."""
    found = _CURRENT.get()
    if found is None:
        found = Interrupts()
        _CURRENT.set(found)
    return found


def _print_waiting(host: Host) -> None:
    names = [
        escape_controls(plugin.name) for plugin in host.plugins.values() if plugin.inspect()["instances"]
    ]
    if names:
        with suppress(OSError):  # the terminal may be gone
            message = f"waiting for {', '.join(names)} to end; Ctrl-C ends them by force"
            print(message, file=sys.stderr, flush=True)


def _is_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()
