"""Ctrl-C for commands: the first asks a command to end, the second ends its plugins by force.

Every command runs its coroutine with `run`. A command that has more to do than to be cancelled says so with
`ask_to_end`; one that waits for plugins to end does that with `close`, which says whom it waits for.
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

FORCE = 2.0
"""Seconds from a second Ctrl-C until the process exits, whatever it still waits for. Plugins end with it."""
ONE_SHOT_GRACE = 2.0
"""The most seconds that a command of one call gives a plugin to end."""
SOON = 0.5
"""Seconds for plugins to end before a command says what it waits for."""


class Interrupts:
    """The signals that one command has received."""

    def __init__(self) -> None:
        self.count = 0
        """How many were received; 1 at least while the command ends by itself."""
        self.received = False
        self.number = signal.SIGINT
        """The latest."""
        self.restore: Callable[[], object] = lambda: None
        """Puts the terminal back as it was, if the process exits without unwinding."""
        self._first: Callable[[signal.Signals], object] = self._cancel
        self._task: asyncio.Task[Any] | None = None
        self._exit: threading.Timer | None = None

    async def around(self, work: Coroutine[Any, Any, T]) -> T:
        """Run `work`; Ctrl-C cancels it, unless the command asks for something else."""
        self._task = asyncio.current_task()
        _CURRENT.set(self)
        if _is_main_thread() and signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
            self.watch(self._cancel, signal.SIGINT)
        return await work

    def watch(self, first: Callable[[signal.Signals], object], *numbers: signal.Signals) -> None:
        self._first = first
        for number in numbers:
            asyncio.get_running_loop().add_signal_handler(number, self._take, number)

    def done(self) -> None:
        if self._exit is not None:
            self._exit.cancel()

    def _take(self, number: signal.Signals) -> None:
        self.count += 1
        self.received, self.number = True, number
        if self.count == 1:
            self._first(number)
        elif self.count == 2:
            self._force()
        else:
            self._leave()

    def _cancel(self, number: signal.Signals) -> None:
        if self._task is not None:
            self._task.cancel()

    def _force(self) -> None:
        self._exit = threading.Timer(FORCE, self._leave)
        self._exit.daemon = True
        self._exit.start()
        kill_all()
        if self._task is not None:
            self._task.cancel()

    def _leave(self) -> None:
        try:
            self.restore()
        finally:
            os._exit(128 + self.number)


_CURRENT: ContextVar[Interrupts | None] = ContextVar("interrupts", default=None)


def run(work: Coroutine[Any, Any, T]) -> T:
    """Run the coroutine of a command, as `asyncio.run` does.

    The first Ctrl-C cancels it, and KeyboardInterrupt is raised at its end. The second one kills every plugin
    and exits with the status 130, after `FORCE` seconds at the latest.
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
            signal.signal(signal.SIGINT, signal.SIG_IGN)  # the exit is under way: another one changes nothing
        if interrupts.count > 1 and interrupts.received:
            raise SystemExit(128 + interrupts.number) from None
    return result


def ask_to_end(first: Callable[[signal.Signals], object], *numbers: signal.Signals) -> None:
    """Let the first of these signals call `first`, in place of cancelling the command."""
    _interrupts().watch(first, *numbers)


def restore_with(restore: Callable[[], object]) -> None:
    """What puts the terminal back as it was, for an exit that waits for nothing."""
    _interrupts().restore = restore


async def close(host: Host) -> None:
    """End a host's plugins. If that takes long, its user is told which are waited for; Ctrl-C ends them by
    force, even if it is the first one."""
    interrupts = _interrupts()
    interrupts.count = max(interrupts.count, 1)
    telling = asyncio.get_running_loop().call_later(SOON, _tell_who_stays, host)
    try:
        await host.close()
    finally:
        telling.cancel()


def _interrupts() -> Interrupts:
    """Those of the command that runs; new ones for a coroutine that was not started with `run`."""
    found = _CURRENT.get()
    if found is None:
        found = Interrupts()
        _CURRENT.set(found)
    return found


def _tell_who_stays(host: Host) -> None:
    names = [
        escape_controls(plugin.name) for plugin in host.plugins.values() if plugin.inspect()["instances"]
    ]
    if names:
        with suppress(OSError):  # the terminal may be gone
            told = f"waiting for {', '.join(names)} to end; Ctrl-C ends them by force"
            print(told, file=sys.stderr, flush=True)


def _is_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()
