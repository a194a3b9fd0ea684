"""Storage: durable keys and values for plugins, a SQLite file for each, in a folder that only the host's user
reads.

A `set` or `delete` is answered once it is committed and synced. From then on it survives `kill -9` of the
host at any moment, and a power loss as far as the disk keeps what it was told to sync. What was asked and not
yet answered is there whole or not at all.

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

from plughost.engine.caller import Caller
from plughost.errors import Overloaded, Stopped
from plughost.services.base import BaseService
from plughost.services.storage.messages import (
    Deleted,
    DeleteKey,
    Found,
    Get,
    KeyPage,
    Request,
    Set,
    Stored,
    key_of,
    listing,
    value_of,
)  # fmt: skip
from plughost.services.storage.plugin_store import PluginStore, StorageRequest, file_name

if TYPE_CHECKING:
    from plughost.services.storage.database import Outcome

    Work = asyncio.Future[list[Outcome]]

QUOTA = 64 << 20
"""Quota of one plugin in bytes of keys and values."""
THREADS = 4
MAX_OPEN = 128
"""Open files, each with three descriptors; enough that a hundred plugins that write in turn reopen none."""
MAX_BATCH = 64
"""Requests of one plugin in one transaction."""
MAX_WAITING = 4096
"""Waiting requests of one plugin; a single process is not read any more long before."""


class OnKey(Protocol):
    """Params with a key."""

    key: str


class ToSet(Protocol):
    """Params of `set`."""

    key: str
    value: msgspec.Raw


class ToList(Protocol):
    """Params of `list`: a page of the keys with a prefix."""

    prefix: str
    after: str
    limit: int


def default_folder() -> str:
    """The default folder of the storage files of this user's plugins."""
    state = os.environ.get("XDG_STATE_HOME", "")
    base = state if os.path.isabs(state) else os.path.expanduser("~/.local/state")
    return os.path.join(base, "plughost", "storage")


def storage_file(folder: str, plugin: str) -> str:
    """The path of a plugin's storage file in a folder."""
    return os.path.join(folder, file_name(plugin))


class Storage(BaseService):
    """The storage service: durable keys and values. The requests of one plugin are served in order; those
    that come while others are being committed share the next commit."""

    def __init__(self, folder: str | os.PathLike[str], quota: int = QUOTA) -> None:
        self._folder = os.path.abspath(os.path.expanduser(folder))
        self._quota = quota
        # Separate threads, so that a slow disk does not use up those of the program.
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="plughost-storage")
        self._stores: dict[tuple[str, str | None], PluginStore] = {}
        """By name and owner: a file that is open for one plugin is not open for another one of its name."""
        self._ready: dict[PluginStore, None] = {}
        """Stores that wait for a thread, in order."""
        self._open: dict[PluginStore, None] = {}
        """Stores whose file is open, or in a thread that may open it; least recently used first."""
        self._running = 0
        self._closed = False
        self._emptied = asyncio.Event()

    async def get(self, caller: Caller, params: OnKey) -> Found:
        """The value of a key."""
        found: Found = await self._ask(caller, Get(key_of(params.key)))
        return found

    async def set(self, caller: Caller, params: ToSet) -> Stored:
        """Store a value; returns when it is synced to the disk."""
        stored: Stored = await self._ask(caller, Set(key_of(params.key), value_of(params.value)))
        return stored

    async def delete(self, caller: Caller, params: OnKey) -> Deleted:
        """Delete a key; returns when that is synced to the disk."""
        deleted: Deleted = await self._ask(caller, DeleteKey(key_of(params.key)))
        return deleted

    async def list(self, caller: Caller, params: ToList) -> KeyPage:
        """A page of keys."""
        page: KeyPage = await self._ask(caller, listing(params.prefix, params.after, params.limit))
        return page

    async def close(self) -> None:
        """Run all waiting requests, then close every file."""
        self._closed = True
        for store in [*self._stores.values()]:
            store.callers.clear()
            self._schedule(store)
        if self._stores:
            await self._emptied.wait()
        self._threads.shutdown(wait=False)

    def file_of(self, plugin: str) -> str:
        """The path of a plugin's storage file, for backups."""
        return storage_file(self._folder, plugin)

    async def _ask(self, caller: Caller, request: Request) -> Any:
        if self._closed:
            raise Stopped("the host has closed its storage")
        name, owner = caller.name, _owner(caller)
        store = self._stores.get((name, owner))
        if store is None:
            store = self._stores[name, owner] = PluginStore(name, self.file_of(name), self._quota, owner)
        if len(store.waiting) >= MAX_WAITING:
            raise Overloaded(f"{len(store.waiting)} storage requests of this plugin are already waiting")
        waiting = StorageRequest(request, caller, asyncio.get_running_loop().create_future())
        store.waiting.append(waiting)
        if caller not in store.callers:
            store.callers.add(caller)
            caller.on_end(partial(self._on_caller_end, store, caller))
        self._schedule(store)
        return await waiting.answer

    def _on_caller_end(self, store: PluginStore, caller: Caller) -> None:
        store.callers.discard(caller)
        self._schedule(store)

    def _schedule(self, store: PluginStore) -> None:
        """Schedule a store that has work, or forget one that is not used any more."""
        if store.wants_a_turn:
            if not self._ready:
                self._schedule_turns()
            self._ready[store] = None
        elif not store.in_thread and not store.callers:
            self._stores.pop((store.name, store.owner), None)
        if self._closed and not self._stores:
            self._emptied.set()

    def _schedule_turns(self) -> None:
        """Start in the next pass of the loop, so that requests made until then share a commit."""
        asyncio.get_running_loop().call_soon(self._start_ready)

    def _start_ready(self) -> None:
        while self._ready and self._running < THREADS:
            self._start(next(iter(self._ready)))

    def _start(self, store: PluginStore) -> None:
        batch = store.take(MAX_BATCH)
        closing = self._store_to_close(store) if batch else store
        for each in (store, closing):
            if each is not None:
                self._ready.pop(each, None)
                self._open.pop(each, None)
                each.in_thread = True
        if batch:
            self._open[store] = None
        self._running += 1
        requests = [waiting.request for waiting in batch]
        work = asyncio.get_running_loop().run_in_executor(self._threads, _run_batch, store, requests, closing)
        work.add_done_callback(partial(self._done, store, batch, closing))

    def _store_to_close(self, store: PluginStore) -> PluginStore | None:
        """The store whose file must be closed before another is opened; fewer are in threads than may be
        open."""
        if store in self._open or len(self._open) < MAX_OPEN:
            return None
        return next(other for other in self._open if not other.in_thread)

    def _done(
        self, store: PluginStore, batch: Sequence[StorageRequest], closing: PluginStore | None, work: Work
    ) -> None:
        self._running -= 1
        error = work.exception()
        store.answer(batch, work.result() if error is None else [error] * len(batch))
        store.in_thread = False
        if not store.is_open:
            self._open.pop(store, None)
        if closing is not None and closing is not store:
            closing.in_thread = False
            self._schedule(closing)
        self._schedule(store)
        self._schedule_turns()


def _owner(caller: Caller) -> str | None:
    """The folder of the plugin that asks, which owns the file."""
    return None if caller.plugin is None else caller.plugin.folder


def _run_batch(store: PluginStore, requests: Sequence[Request], closing: PluginStore | None) -> list[Outcome]:
    if closing is not None:
        closing.close()
    return store.run(requests) if requests else []
