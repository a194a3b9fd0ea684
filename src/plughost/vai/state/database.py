"""TenantState: sessions, chains, runs and the outbox of a host's tenants, in one SQLite file."""

from __future__ import annotations

import os

from plughost.vai.sqlite import SqliteDatabase
from plughost.vai.state import chains, outbox, runs, sessions
from plughost.vai.state.chains import Chains
from plughost.vai.state.outbox import Outbox
from plughost.vai.state.runs import Runs
from plughost.vai.state.sessions import Sessions

FILE = "state.db"
MIGRATIONS = (
    (),
    # Files of version 1 have some of these tables: each is created if it does not exist.
    (*chains.TABLES, *sessions.TABLES, *runs.TABLES, *outbox.TABLES),
)


class TenantState:
    """The state database of a folder. Nothing is created before the first use."""

    def __init__(self, folder: str) -> None:
        self._path = os.path.join(folder, FILE)
        self._database = SqliteDatabase(self._path, MIGRATIONS)
        self.outbox = Outbox(self._database)
        self.sessions = Sessions(self._database)
        self.chains = Chains(self._database, self.outbox)
        self.runs = Runs(self._database, self.outbox)

    @property
    def exists(self) -> bool:
        """Whether the file exists: this host or an earlier one has stored something."""
        return os.path.exists(self._path)

    def close(self) -> None:
        """Closes the database."""
        self._database.close()
