"""Durable keys and values for plugins: a SQLite file for each, in a folder that only the host's user reads.

A `set` or `delete` is answered once it is committed and synced. From then on it survives `kill -9` of the
host at any moment, and a power loss as far as the disk keeps what it was told to sync. What was asked and
not yet answered is there whole or not at all.

To back one up while the host runs: `sqlite3 FILE .backup COPY`. A plain copy may miss what is in the log
beside the file. Put a backup in its place while its plugin is stopped.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from plughost.base.errors import Overloaded, Stopped
from plughost.runtime.caller import Caller
from plughost.services.entries import (
    Delete,
    Deleted,
    Found,
    Get,
    Page,
    Request,
    Set,
    Stored,
    key_of,
    listing,
    value_of,
)  # fmt: skip
from plughost.services.shelf import Asked, Shelf, file_name

if TYPE_CHECKING:
    from plughost.services.database import Outcome

    Work = asyncio.Future[list[Outcome]]

QUOTA = 64 << 20
"""Bytes of one plugin's keys and values."""
THREADS = 4
MOST_OPEN = 128
"""Files at a time, each with three descriptors: a hundred plugins that write by turns open none twice."""
MOST_TOGETHER = 64
"""Requests of one plugin in one transaction."""
MOST_WAITING = 4096
"""Requests of one plugin; a single process is read no further long before."""


class OnKey(Protocol):
    key: str


class ToSet(Protocol):
    key: str
    value: msgspec.Raw


class ToList(Protocol):
    prefix: str
    after: str
    limit: int


def usual_folder() -> str:
    """Where this user's hosts keep what their plugins store."""
    state = os.environ.get("XDG_STATE_HOME", "")
    base = state if os.path.isabs(state) else os.path.expanduser("~/.local/state")
    return os.path.join(base, "plughost", "storage")


def file_in(folder: str, plugin: str) -> str:
    """The file of a plugin's keys and values in a folder of the storage."""
    return os.path.join(folder, file_name(plugin))


class Storage:
    """The requests of one plugin are served in their order. Those that come while others are being committed
    share the next commit."""

    def __init__(self, folder: str | os.PathLike[str], quota: int = QUOTA) -> None:
        self._folder = os.path.abspath(os.path.expanduser(folder))
        self._quota = quota
        # Threads of its own: a slow disk must not use up those of the program.
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="plughost-storage")
        self._shelves: dict[tuple[str, str | None], Shelf] = {}
        """By name and owner: a file that is open for one plugin is not open for another one of its name."""
        self._ready: dict[Shelf, None] = {}
        """Those that want a turn, the first first."""
        self._open: dict[Shelf, None] = {}
        """Those whose file is open, or in a thread that may open it; the longest unused first."""
        self._running = 0
        self._closed = False
        self._emptied = asyncio.Event()

    async def get(self, caller: Caller, params: OnKey) -> Found:
        found: Found = await self._ask(caller, Get(key_of(params.key)))
        return found

    async def set(self, caller: Caller, params: ToSet) -> Stored:
        stored: Stored = await self._ask(caller, Set(key_of(params.key), value_of(params.value)))
        return stored

    async def delete(self, caller: Caller, params: OnKey) -> Deleted:
        deleted: Deleted = await self._ask(caller, Delete(key_of(params.key)))
        return deleted

    async def list(self, caller: Caller, params: ToList) -> Page:
        page: Page = await self._ask(caller, listing(params.prefix, params.after, params.limit))
        return page

    async def close(self) -> None:
        """When all that was asked is done, and every file closed."""
        self._closed = True
        for shelf in [*self._shelves.values()]:
            shelf.callers.clear()
            self._go_on(shelf)
        if self._shelves:
            await self._emptied.wait()
        self._threads.shutdown(wait=False)

    def file_of(self, plugin: str) -> str:
        """Where a plugin's keys and values are, for whoever backs them up."""
        return file_in(self._folder, plugin)

    async def _ask(self, caller: Caller, request: Request) -> Any:
        if self._closed:
            raise Stopped("the host has closed its storage")
        name, owner = caller.name, _owner(caller)
        shelf = self._shelves.get((name, owner))
        if shelf is None:
            shelf = self._shelves[name, owner] = Shelf(name, self.file_of(name), self._quota, owner)
        if len(shelf.waiting) >= MOST_WAITING:
            raise Overloaded(f"{len(shelf.waiting)} requests to its storage wait already")
        asked = Asked(request, caller, asyncio.get_running_loop().create_future())
        shelf.waiting.append(asked)
        if caller not in shelf.callers:
            shelf.callers.add(caller)
            caller.on_end(partial(self._left, shelf, caller))
        self._go_on(shelf)
        return await asked.answer

    def _left(self, shelf: Shelf, caller: Caller) -> None:
        shelf.callers.discard(caller)
        self._go_on(shelf)

    def _go_on(self, shelf: Shelf) -> None:
        """After anything that has happened to a shelf."""
        if shelf.wants_a_turn:
            if not self._ready:
                self._soon_give_turns()
            self._ready[shelf] = None
        elif not shelf.held and not shelf.callers:
            self._shelves.pop((shelf.name, shelf.owner), None)
        if self._closed and not self._shelves:
            self._emptied.set()

    def _soon_give_turns(self) -> None:
        """When all who are awake have asked: that shares a commit."""
        asyncio.get_running_loop().call_soon(self._give_turns)

    def _give_turns(self) -> None:
        while self._ready and self._running < THREADS:
            self._start(next(iter(self._ready)))

    def _start(self, shelf: Shelf) -> None:
        batch = shelf.take(MOST_TOGETHER)
        closing = self._to_close(shelf) if batch else shelf
        for one in (shelf, closing):
            if one is not None:
                self._ready.pop(one, None)
                self._open.pop(one, None)
                one.held = True
        if batch:
            self._open[shelf] = None
        self._running += 1
        requests = [asked.request for asked in batch]
        work = asyncio.get_running_loop().run_in_executor(self._threads, _work, shelf, requests, closing)
        work.add_done_callback(partial(self._done, shelf, batch, closing))

    def _to_close(self, shelf: Shelf) -> Shelf | None:
        """Whose file is closed before one more is opened; threads hold fewer than may be open."""
        if shelf in self._open or len(self._open) < MOST_OPEN:
            return None
        return next(other for other in self._open if not other.held)

    def _done(self, shelf: Shelf, batch: Sequence[Asked], closing: Shelf | None, work: Work) -> None:
        self._running -= 1
        error = work.exception()
        shelf.answer(batch, work.result() if error is None else [error] * len(batch))
        shelf.held = False
        if not shelf.is_open:
            self._open.pop(shelf, None)
        if closing is not None and closing is not shelf:
            closing.held = False
            self._go_on(closing)
        self._go_on(shelf)
        self._soon_give_turns()


def _owner(caller: Caller) -> str | None:
    """The folder of the plugin that asks, which its file is for."""
    return None if caller.plugin is None else caller.plugin.folder


def _work(shelf: Shelf, requests: Sequence[Request], closing: Shelf | None) -> list[Outcome]:
    if closing is not None:
        closing.close()
    return shelf.run(requests) if requests else []
