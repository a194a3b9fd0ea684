"""TenantState: sessions, chains, runs and the outbox of a host's tenants, in one database."""

from __future__ import annotations

from plughost.vai.database.database import Database
from plughost.vai.state.chains import Chains
from plughost.vai.state.outbox import Outbox
from plughost.vai.state.runs import Runs
from plughost.vai.state.sessions import Sessions


class TenantState:
    """What a host keeps for its tenants. Nothing is created before the first use."""

    def __init__(self, database: Database) -> None:
        self.outbox = Outbox(database)
        self.sessions = Sessions(database)
        self.chains = Chains(database, self.outbox)
        self.runs = Runs(database, self.outbox)
