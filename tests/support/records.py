"""The records of a state folder, read and written by blocking calls, as another process would."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from plughost.vai.database.database import Database
from plughost.vai.database.open_database import open_database
from plughost.vai.records import recovery
from plughost.vai.records.records import Records
from plughost.vai.records.retention import Pruned, Retention

T = TypeVar("T")


def blocking(work: Callable[[], Awaitable[T]]) -> T:
    """The result of a coroutine, from an event loop in a thread of its own."""
    result: list[Any] = []

    def run() -> None:
        async def main() -> T:
            return await work()

        try:
            result.append(asyncio.run(main()))
        except BaseException as error:
            result.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    if isinstance(result[0], BaseException):
        raise result[0]
    return result[0]  # type: ignore[no-any-return]


class RecordBook:
    """`with RecordBook(folder) as book`: each call opens the database and closes it."""

    def __init__(self, folder: str | Path, url: str | None = None) -> None:
        self._folder = str(folder)
        self._url = url

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass

    def _use(self, use: Callable[[Records], Awaitable[T]]) -> T:
        async def work() -> T:
            database: Database = open_database(self._folder, self._url)
            try:
                return await use(Records(database))
            finally:
                await database.close()

        return blocking(work)

    def latest(self, limit: int, **filters: Any) -> list[dict[str, Any]]:
        return self._use(lambda records: records.latest(limit, **filters))

    def get(self, invocation_id: str) -> dict[str, Any] | None:
        return self._use(lambda records: records.get(invocation_id))

    def insert(self, host: str, lines: list[bytes]) -> None:
        self._use(lambda records: records.insert(host, lines))

    def prune(self, retention: Retention, now: float) -> Pruned:
        return self._use(lambda records: records.prune(retention, now))

    def would_prune(self, retention: Retention, now: float) -> Pruned:
        return self._use(lambda records: records.would_prune(retention, now))

    @property
    def used(self) -> int:
        return self._use(lambda records: records.used())


def recover(folder: str | Path, url: str | None = None) -> None:
    """Recovers the journals of a folder, as the next host does."""

    async def work() -> None:
        database = open_database(str(folder), url)
        try:
            await recovery.recover(str(folder), database)
        finally:
            await database.close()

    blocking(work)
