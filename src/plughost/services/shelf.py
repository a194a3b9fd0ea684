"""One plugin's place in the storage: its file's name, who waits for it, and whether it is in use."""

from __future__ import annotations

import asyncio
import hashlib
from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from plughost.base.errors import PluginError
from plughost.runtime.caller import Caller
from plughost.services.entries import Request

if TYPE_CHECKING:  # SQLite is loaded by the first request
    from plughost.services.database import Database, Outcome

PLAIN = frozenset(b"abcdefghijklmnopqrstuvwxyz0123456789-_.")
"""No capitals: where a filesystem does not tell them apart, plugins would share a file."""
LONGEST_NAME = 200
"""With all that SQLite appends, it stays below the 255 bytes that filesystems take."""


class Asked(NamedTuple):
    request: Request
    caller: Caller
    answer: asyncio.Future[Any]


class Shelf:
    """`run` and `close` block; everything else happens in the event loop, while no thread holds it."""

    def __init__(self, name: str, path: str, quota: int, owner: str | None) -> None:
        self.name = name
        self.owner = owner
        self.waiting: deque[Asked] = deque()
        self.callers: set[Caller] = set()
        """Processes that have used it and live; after the last its file is closed."""
        self.held = False
        """A thread has it in hand."""
        self._path = path
        self._quota = quota
        self._database: Database | None = None
        self._trouble = ""
        """That the operator was told of last."""

    @property
    def is_open(self) -> bool:
        return self._database is not None and self._database.is_open

    @property
    def wants_a_turn(self) -> bool:
        return not self.held and (bool(self.waiting) or (self.is_open and not self.callers))

    def take(self, most: int) -> list[Asked]:
        return [self.waiting.popleft() for _ in range(min(len(self.waiting), most))]

    def run(self, requests: Sequence[Request]) -> list[Outcome]:
        if self._database is None:
            from plughost.services.database import Database

            self._database = Database(self._path, self._quota, self.owner)
        return self._database.run(requests)

    def close(self) -> None:
        if self._database is not None:
            self._database.close()

    def answer(self, batch: Sequence[Asked], outcomes: Sequence[Outcome | BaseException]) -> None:
        for asked, outcome in zip(batch, outcomes, strict=True):
            if isinstance(outcome, PluginError):
                self._tell(asked.caller, outcome)
            if asked.answer.done():
                continue  # nobody waits for it any more
            if isinstance(outcome, BaseException):
                asked.answer.set_exception(outcome)
            else:
                asked.answer.set_result(outcome)

    def _tell(self, caller: Caller, error: PluginError) -> None:
        """Trouble that only the operator can end, once."""
        if error.hint and error.message != self._trouble:
            self._trouble = error.message
            caller.warn(f"{error.message} ({error.hint})")


def file_name(plugin: str) -> str:
    """One that is no path and nobody else's, and that people recognise."""
    octets = plugin.encode("utf-8", "surrogatepass")
    spelled = "".join(chr(octet) if octet in PLAIN else f"%{octet:02X}" for octet in octets)
    if spelled.startswith("."):
        spelled = f"%2E{spelled[1:]}"
    if len(spelled) > LONGEST_NAME:
        spelled = f"{spelled[:100]}~{hashlib.sha256(octets).hexdigest()}"
    return f"{spelled}.sqlite"
