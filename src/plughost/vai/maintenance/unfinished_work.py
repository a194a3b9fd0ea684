"""Unfinished work in a copy of a database: its hosts do not use the copy, so they never finish it there."""

from __future__ import annotations

from plughost.vai.database.database import Steps
from plughost.vai.database.statements import load_statements
from plughost.vai.state.leases import end_host

_SQL = load_statements(__file__)
HOSTS, TAKE_BACK = _SQL["hosts"], _SQL["take_back"]


def end_unfinished_work() -> Steps[None]:
    """Ends running invocations with the reason `host_ended`, and makes claimed deliveries due again."""
    for row in (yield HOSTS()).rows:
        yield from end_host(row["host"])
    yield TAKE_BACK()
