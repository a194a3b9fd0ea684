"""Errors of the database."""

from __future__ import annotations

from plughost.errors import HostFailed


class DatabaseUnavailable(HostFailed):
    """The database did not take a transaction: its file or server cannot be reached, is locked, or has no
    room. Nothing of the transaction is stored, unless the connection was lost during the commit."""

    remedy = "check that the database server runs, or who owns and locks the database file; then try again"


class ValueRefused(DatabaseUnavailable):
    """The database works, but refuses a value: malformed, too large, or against a constraint. The same
    transaction would be refused again."""

    remedy = "look for the value that the message names; the same transaction would be refused again"
