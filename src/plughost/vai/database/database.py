"""Database: the interface of both databases. Transactions are values or generators.

A transaction of one statement is a `Query` or a `Batch`. One that looks before it writes is a generator that
yields queries and is sent their results. It does no I/O itself, so one implementation serves both databases:

    def finish(run_id: str, status: str) -> Steps[bool]:
        run = (yield FIND(run_id=run_id)).first()
        …
        return bool((yield FINISH(run_id=run_id, status=status)).changed)

    await database.write(finish, "run_1", "succeeded")
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, ParamSpec, Protocol, TypeAlias, TypeVar, overload

from plughost.vai.database.statements import Batch, Dialect, Query, Result

T = TypeVar("T")
P = ParamSpec("P")

Steps: TypeAlias = Generator[Query | Batch, Result, T]
"""A transaction as a generator; it returns the transaction's result. It may be run again after a deadlock."""


class Database(Protocol):
    """SQLite or PostgreSQL. Errors: `DatabaseUnavailable` when the database does not work, and Stopped after
    `close`. A transaction is executed even if its caller is cancelled, who is released when it has ended."""

    dialect: Dialect

    async def open(self) -> None:
        """Connects, and brings the schema up to date. Other methods do this first, if it was not done."""

    @overload
    async def read(self, query: Query, /) -> Result: ...

    @overload
    async def read(self, unit: Callable[P, Steps[T]], /, *args: P.args, **kwargs: P.kwargs) -> T: ...

    async def read(self, unit: Any, /, *args: Any, **kwargs: Any) -> Any:
        """Executes a query, or all queries of a generator on one snapshot. Nothing may be written."""

    @overload
    async def write(self, query: Query | Batch, /) -> Result: ...

    @overload
    async def write(self, unit: Callable[P, Steps[T]], /, *args: P.args, **kwargs: P.kwargs) -> T: ...

    async def write(self, unit: Any, /, *args: Any, **kwargs: Any) -> Any:
        """Executes a transaction. It is on disk when this returns; nothing of it is, when this raises."""

    @overload
    async def write_unsynced(self, query: Query | Batch, /) -> Result: ...

    @overload
    async def write_unsynced(
        self, unit: Callable[P, Steps[T]], /, *args: P.args, **kwargs: P.kwargs
    ) -> T: ...

    async def write_unsynced(self, unit: Any, /, *args: Any, **kwargs: Any) -> Any:
        """Like `write`, but a power cut may undo it: for what a journal has, or what can be done again."""

    def listen(self, channel: str, callback: Callable[[], object]) -> None:
        """Calls back, on the event loop, after `announce` in any process and whenever one may have been
        missed."""

    def announce(self, channel: str) -> None:
        """Tells listeners that there is something new; several in a short time are told once."""

    async def close(self) -> None:
        """Ends the transactions that were begun, then closes the database. May be called repeatedly."""
