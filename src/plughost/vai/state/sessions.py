"""Sessions: the groups to which chains and runs belong."""

from __future__ import annotations

import sqlite3

import msgspec

from plughost.errors import InvalidSpec
from plughost.vai.bindings.binding import Scope
from plughost.vai.sqlite import SqliteDatabase

TABLES = (
    """CREATE TABLE IF NOT EXISTS sessions (session_id PRIMARY KEY, org_id NOT NULL, project_id,
        title NOT NULL) WITHOUT ROWID""",
    "CREATE INDEX IF NOT EXISTS chains_of ON chains (session_id, chain_id)",
)
CREATE = "INSERT INTO sessions VALUES (?, ?, ?, ?)"
FIND = "SELECT * FROM sessions WHERE session_id = ?"
CHAINS = """SELECT chain_id FROM chains
    WHERE session_id = ? AND org_id IS ? AND project_id IS ? AND chain_id > ? ORDER BY chain_id LIMIT ?"""


class TenantSession(msgspec.Struct, frozen=True, kw_only=True):
    """One session of a tenant."""

    session_id: str
    org_id: str
    project_id: str | None = None
    title: str = ""

    @property
    def scope(self) -> Scope:
        return Scope(self.org_id, self.project_id)


class Sessions:
    """The sessions in the state database. InvalidSpec for an unknown session."""

    def __init__(self, database: SqliteDatabase) -> None:
        self._database = database

    async def create(self, session: TenantSession) -> None:
        """Stores a new session."""
        await self._database.do(lambda connection: _create(connection, session))

    async def session(self, session_id: str) -> TenantSession:
        """The session of that id."""
        return await self._database.do(lambda connection: _session(connection, session_id))

    async def chain_ids(self, session: TenantSession, after: str, limit: int) -> list[str]:
        """The ids of the session's chains after `after`, sorted, for cursor pagination."""
        values = (session.session_id, session.org_id, session.project_id, after, limit)
        return await self._database.do(
            lambda connection: [row["chain_id"] for row in connection.execute(CHAINS, values)]
        )


def _create(connection: sqlite3.Connection, session: TenantSession) -> None:
    try:
        connection.execute(CREATE, msgspec.structs.astuple(session))
    except sqlite3.IntegrityError as error:
        raise InvalidSpec(f"the session {session.session_id} already exists") from error


def _session(connection: sqlite3.Connection, session_id: str) -> TenantSession:
    row = connection.execute(FIND, (session_id,)).fetchone()
    if row is None:
        raise InvalidSpec(f"there is no session {session_id}")
    return TenantSession(**dict(row))
