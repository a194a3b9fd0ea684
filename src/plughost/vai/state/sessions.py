"""Sessions: the groups to which chains and runs belong."""

from __future__ import annotations

import msgspec

from plughost.errors import InvalidSpec
from plughost.vai.bindings.binding import Scope
from plughost.vai.database.database import Database
from plughost.vai.database.statements import load_statements
from plughost.vai.state.tenant_columns import columns, from_row

_SQL = load_statements(__file__)
CREATE, FIND, CHAINS = _SQL["create"], _SQL["find"], _SQL["chains"]


class TenantSession(msgspec.Struct, frozen=True, kw_only=True):
    """One session of a tenant."""

    session_id: str
    org_id: str
    project_id: str | None = None
    title: str = ""

    @property
    def scope(self) -> Scope:
        """The tenant of the session."""
        return Scope(self.org_id, self.project_id)


class Sessions:
    """The sessions in the database. InvalidSpec for an unknown session."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def create(self, session: TenantSession) -> None:
        """Stores a new session."""
        if not (await self._database.write(CREATE(**columns(session)))).rows:
            raise InvalidSpec(f"the session {session.session_id} already exists")

    async def session(self, session_id: str) -> TenantSession:
        """The session of that id."""
        row = (await self._database.read(FIND(session_id=session_id))).first()
        if row is None:
            raise InvalidSpec(f"there is no session {session_id}")
        return TenantSession(**from_row(row))

    async def chain_ids(self, session: TenantSession, after: str, limit: int) -> list[str]:
        """The ids of the session's chains after `after`, sorted, for cursor pagination."""
        tenant = columns(session.scope)
        query = CHAINS(session_id=session.session_id, **tenant, after=after, limit=limit)
        return [row["chain_id"] for row in (await self._database.read(query)).rows]
