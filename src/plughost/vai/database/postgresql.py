"""PostgresDatabase: a pool of connections to a PostgreSQL server, and one that listens."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from plughost.errors import HostFailed, InvalidSpec, Stopped
from plughost.vai.database.connection_pool import ConnectionPool
from plughost.vai.database.errors import DatabaseUnavailable, ValueRefused
from plughost.vai.database.migrations import pending
from plughost.vai.database.postgresql_listener import PostgresListener
from plughost.vai.database.statements import Batch, Dialect, Query, Result

CONNECTIONS = 10
"""Connections of one process to the server, besides the one that listens."""
CONNECT_TIMEOUT = 10.0
COMMAND_TIMEOUT = 60.0
"""Seconds for one statement; a server that is gone without a word is noticed after that."""
IDLE_MILLISECONDS = 5000
"""After this time the server ends a transaction that does nothing: its process was stopped in the middle, and
others wait for its locks."""
ATTEMPTS = 5
"""How often a transaction is executed that deadlocks with others."""
MIGRATION_LOCK = 0x706C7567
"""The number of the advisory lock under which migrations run."""
REFUSALS = ("22", "23", "54")
"""Classes of error codes about values: wrong data, a violated constraint, a limit that is exceeded."""
VERSION = "CREATE TABLE IF NOT EXISTS schema_version (version INTEGER NOT NULL)"


class PostgresDatabase:
    """A `Database` on a PostgreSQL server, which the processes of several machines may share."""

    dialect: Dialect = "postgresql"

    def __init__(self, url: str, *, connections: int = CONNECTIONS) -> None:
        self._url = _checked(url)
        self._connections = connections
        self._pool: ConnectionPool | None = None
        self._opening = asyncio.Lock()
        self._closed = False
        self._under_way: set[asyncio.Task[Any]] = set()
        self._listener: PostgresListener | None = None

    def __repr__(self) -> str:
        return f"<PostgresDatabase {self.place}>"

    @property
    def place(self) -> str:
        """Server and database, without credentials."""
        parts = urlsplit(self._url)
        return f"postgresql://{parts.hostname or 'local socket'}{parts.path}"

    async def open(self) -> None:
        """See `Database.open`."""
        await self._begin(self._ready())

    async def read(self, unit: Any, /, *args: Any, **kwargs: Any) -> Any:
        """See `Database.read`."""
        return await self._begin(
            self._run(unit, args, kwargs, "BEGIN READ ONLY ISOLATION LEVEL REPEATABLE READ")
        )

    async def write(self, unit: Any, /, *args: Any, **kwargs: Any) -> Any:
        """See `Database.write`."""
        return await self._begin(self._run(unit, args, kwargs, "BEGIN"))

    async def write_unsynced(self, unit: Any, /, *args: Any, **kwargs: Any) -> Any:
        """See `Database.write_unsynced`."""
        begin = "BEGIN; SET LOCAL synchronous_commit = off"
        return await self._begin(self._run(unit, args, kwargs, begin, always_begin=True))

    def listen(self, channel: str, callback: Callable[[], object]) -> None:
        """See `Database.listen`."""
        if self._listener is None:
            self._listener = PostgresListener(self._connect, self._report)
        self._listener.add(channel, callback)

    def announce(self, channel: str) -> None:
        """See `Database.announce`."""
        if self._listener is None and not self._closed:
            self._listener = PostgresListener(self._connect, self._report)
        if self._listener is not None:
            self._listener.announce(channel)

    async def close(self) -> None:
        """See `Database.close`."""
        self._closed = True
        if self._listener is not None:
            await self._listener.close()
        if self._under_way:
            await asyncio.wait(self._under_way)
        if self._pool is not None:
            await self._pool.close()

    def _check_open(self) -> None:
        if self._closed:
            raise Stopped("the host is closed")

    async def _begin(self, work: Any) -> Any:
        """Runs a transaction in a task of its own: a caller that is cancelled waits for its end."""
        try:
            self._check_open()
        except Stopped:
            work.close()
            raise
        task = asyncio.get_running_loop().create_task(work)
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            await asyncio.wait([task])
            if not task.cancelled():
                task.exception()
            raise

    async def _run(self, unit: Any, args: Any, kwargs: Any, begin: str, *, always_begin: bool = False) -> Any:
        import asyncpg

        for attempt in range(ATTEMPTS):
            try:
                return await self._run_once(unit, args, kwargs, begin, always_begin)
            except (asyncpg.DeadlockDetectedError, asyncpg.SerializationError) as error:
                if attempt == ATTEMPTS - 1:
                    raise self._unavailable(error) from error
                await asyncio.sleep(0.01 * 2**attempt)
            except (
                OSError,
                asyncpg.PostgresError,
                asyncpg.InterfaceError,
                asyncpg.InternalClientError,
                TimeoutError,
            ) as error:
                raise self._unavailable(error) from error
        raise AssertionError

    async def _run_once(self, unit: Any, args: Any, kwargs: Any, begin: str, always_begin: bool) -> Any:
        import asyncpg

        pool = self._pool or await self._ready()
        connection = await pool.acquire()
        try:
            if isinstance(unit, Query | Batch) and not always_begin:
                return await _execute(connection, unit)  # a transaction of its own
            return await _run_steps(connection, unit, args, kwargs, begin)
        except (asyncpg.InternalClientError, TimeoutError, asyncio.CancelledError):
            connection.terminate()  # it is in the middle of something
            raise
        finally:
            pool.release(connection)

    async def _ready(self) -> ConnectionPool:
        import asyncpg

        async with self._opening:
            if self._pool is None:
                try:
                    await self._migrate()
                except (
                    OSError,
                    ValueError,
                    asyncpg.PostgresError,
                    asyncpg.InterfaceError,
                    TimeoutError,
                ) as error:
                    raise self._unavailable(error) from error
                self._pool = ConnectionPool(self._connect, self._connections, CONNECT_TIMEOUT)
        return self._pool

    async def _connect(self, *, patient: bool = False) -> Any:
        """A new connection. A patient one waits for its statements however long they take."""
        import asyncpg

        limit = None if patient else COMMAND_TIMEOUT
        connection = await asyncpg.connect(self._url, timeout=CONNECT_TIMEOUT, command_timeout=limit)
        if not patient:
            try:
                await connection.execute(f"SET idle_in_transaction_session_timeout = {IDLE_MILLISECONDS}")
            except BaseException:
                connection.terminate()
                raise
        return connection

    async def _migrate(self) -> None:
        connection = await self._connect(patient=True)
        try:
            pending("postgresql", await _version(connection), self.place)  # a newer one is refused untouched
            await connection.execute("SELECT pg_advisory_lock($1)", MIGRATION_LOCK)
            while lacking := pending("postgresql", await _version(connection), self.place):
                async with connection.transaction():
                    await connection.execute(VERSION)
                    for statement in lacking[0].statements:
                        await connection.execute(statement)
                    await connection.execute("DELETE FROM schema_version")
                    await connection.execute("INSERT INTO schema_version VALUES ($1)", lacking[0].number)
        finally:
            await connection.close()

    def _unavailable(self, error: Exception) -> HostFailed:
        if self._closed:
            return DatabaseUnavailable("the database was closed")
        # Without the server's details: these quote rows, which hold what tenants have written.
        words = getattr(error, "message", None) or str(error) or type(error).__name__
        if str(getattr(error, "sqlstate", "")).startswith(REFUSALS):
            return ValueRefused(f"the database {self.place} refuses a value: {words}")
        return DatabaseUnavailable(f"the database {self.place} cannot be used: {words}")

    def _report(self, error: Exception) -> None:
        context = {
            "message": "changes in other processes are noticed late",
            "exception": self._unavailable(error),
        }
        asyncio.get_running_loop().call_exception_handler(context)


def _checked(url: str) -> str:
    """The URL. InvalidSpec for one with a special character in its password: errors would show a part of the
    password as a host, a port or a path."""
    try:
        parts = urlsplit(url)
        if parts.query:
            parse_qsl(parts.query, keep_blank_values=True, strict_parsing=True)
        hosts = parts.netloc.rpartition("@")[2].split(",")
        ports = [host.rpartition("]")[2].partition(":")[2] for host in hosts]
        is_split_well = parts.netloc.count("@") <= 1 and "@" not in parts.path and not parts.fragment
        if is_split_well and all(port.isdecimal() for port in ports if port):
            return url
    except ValueError:
        pass
    raise InvalidSpec(
        "the database URL is malformed; expected postgresql://USER:PASSWORD@HOST:PORT/NAME",
        hint="escape special characters of user and password: %2F for /, %40 for @, %3F for ?, %23 for #",
    )


async def _version(connection: Any) -> int:
    if await connection.fetchval("SELECT to_regclass('schema_version')") is None:
        return 0
    return int(await connection.fetchval("SELECT coalesce(max(version), 0) FROM schema_version"))


async def _run_steps(connection: Any, unit: Any, args: Any, kwargs: Any, begin: str) -> Any:
    """One transaction. The generator is closed before its connection is used for anything else."""
    await connection.execute(begin)
    try:
        result = await _drive(connection, unit, args, kwargs)
        await connection.execute("COMMIT")
    except BaseException:
        try:
            await connection.execute("ROLLBACK")
        except Exception:  # nobody else must find it within a transaction
            connection.terminate()
        raise
    return result


async def _drive(connection: Any, unit: Any, args: Any, kwargs: Any) -> Any:
    if isinstance(unit, Query | Batch):
        return await _execute(connection, unit)
    steps = unit(*args, **kwargs)
    result: Result | None = None
    try:
        while True:
            try:
                query = steps.send(result)
            except StopIteration as stop:
                return stop.value
            result = await _execute(connection, query)
    finally:
        steps.close()


async def _execute(connection: Any, query: Query | Batch) -> Result:
    statement = query.statement
    if isinstance(query, Query):
        arguments = statement.arguments(query.values)
        if statement.returns_rows:
            rows = await connection.fetch(statement.postgresql, *arguments)
            return Result(rows, len(rows))
        status: str = await connection.execute(statement.postgresql, *arguments)
        count = status.rpartition(" ")[2]
        return Result((), int(count) if count.isdecimal() else 0)
    many = [statement.arguments(values) for values in query.values]
    if statement.returns_rows:
        rows = await connection.fetchmany(statement.postgresql, many) if many else []
        return Result(rows, len(rows))
    await connection.executemany(statement.postgresql, many)
    return Result((), len(many))
