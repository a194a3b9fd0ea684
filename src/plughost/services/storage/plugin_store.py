"""PluginStore: one plugin's queue of storage requests, its database, and the name of its file."""

from __future__ import annotations

import asyncio
import hashlib
from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from plughost.engine.caller import Caller
from plughost.errors import PluginError
from plughost.services.storage.messages import Request

if TYPE_CHECKING:  # SQLite is loaded by the first request
    from plughost.services.storage.database import KeyValueDatabase, Outcome

PLAIN_BYTES = frozenset(b"abcdefghijklmnopqrstuvwxyz0123456789-_.")
"""Bytes that stay as they are in a file name. No capitals: on a case-insensitive filesystem plugins would
share a file."""
MAX_NAME = 200
"""Limit of a file name: with SQLite's suffixes it stays below the 255 bytes of filesystems."""


class StorageRequest(NamedTuple):
    """A request in the queue, with the process that made it and the future of its answer."""

    request: Request
    caller: Caller
    answer: asyncio.Future[Any]


class PluginStore:
    """The storage of one plugin. `run` and `close` block and are called in a thread; everything else is
    called in the event loop."""

    def __init__(self, name: str, path: str, quota: int, owner: str | None) -> None:
        self.name = name
        self.owner = owner
        self.waiting: deque[StorageRequest] = deque()
        self.callers: set[Caller] = set()
        """Running processes that have used it; after the last one its file is closed."""
        self.in_thread = False
        """Whether a thread is using it."""
        self._path = path
        self._quota = quota
        self._database: KeyValueDatabase | None = None
        self._last_warning = ""
        """The last message that was reported to the operator."""

    @property
    def is_open(self) -> bool:
        return self._database is not None and self._database.is_open

    @property
    def wants_a_turn(self) -> bool:
        """Whether there are requests to run, or a file to close."""
        return not self.in_thread and (bool(self.waiting) or (self.is_open and not self.callers))

    def take(self, limit: int) -> list[StorageRequest]:
        """Remove up to `limit` requests from the queue."""
        return [self.waiting.popleft() for _ in range(min(len(self.waiting), limit))]

    def run(self, requests: Sequence[Request]) -> list[Outcome]:
        """Run requests in the database; blocking."""
        if self._database is None:
            from plughost.services.storage.database import KeyValueDatabase

            self._database = KeyValueDatabase(self._path, self._quota, self.owner)
        return self._database.run(requests)

    def close(self) -> None:
        if self._database is not None:
            self._database.close()

    def answer(self, batch: Sequence[StorageRequest], outcomes: Sequence[Outcome | BaseException]) -> None:
        """Resolve the futures of a batch."""
        for asked, outcome in zip(batch, outcomes, strict=True):
            if isinstance(outcome, PluginError):
                self._warn_once(asked.caller, outcome)
            if asked.answer.done():
                continue  # nobody waits for it any more
            if isinstance(outcome, BaseException):
                asked.answer.set_exception(outcome)
            else:
                asked.answer.set_result(outcome)

    def _warn_once(self, caller: Caller, error: PluginError) -> None:
        """Report an error that only the operator can fix, once."""
        if error.hint and error.message != self._last_warning:
            self._last_warning = error.message
            caller.warn(f"{error.message} ({error.hint})")


def file_name(plugin: str) -> str:
    """The file name of a plugin's storage: not a path, unique, and readable for people."""
    octets = plugin.encode("utf-8", "surrogatepass")
    escaped = "".join(chr(octet) if octet in PLAIN_BYTES else f"%{octet:02X}" for octet in octets)
    if escaped.startswith("."):
        escaped = f"%2E{escaped[1:]}"
    if len(escaped) > MAX_NAME:
        escaped = f"{escaped[:100]}~{hashlib.sha256(octets).hexdigest()}"
    return f"{escaped}.sqlite"
