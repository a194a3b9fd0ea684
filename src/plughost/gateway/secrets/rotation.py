"""Rotation: replaces the master key, while other processes read and write secrets.

1. Start every process with both master keys, the old one first: from now on each understands both.
2. Start every process with the new one first: from now on nothing is encrypted with the old one.
3. `rotate`: the data keys in the database are encrypted with the new one. Killed at any moment, it is simply
   called again: each row says which master key encrypts it.
4. Start every process with the new one alone. Stored answers to Idempotency-Keys are not rotated: they need
   the old one for a day.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from plughost.gateway.secrets.envelope import reseal_data_key
from plughost.gateway.secrets.secret_store import columns
from plughost.gateway.secrets.uri import SecretUri
from plughost.vai.bindings.binding import Scope
from plughost.vai.database.database import Database, Steps
from plughost.vai.database.sealing import Seal, WrongSeal
from plughost.vai.database.statements import Row, load_statements
from plughost.vai.invocations.signing_key import reseal_signing_keys

_SQL = load_statements(__file__)
BATCH, RESEAL = _SQL["batch"], _SQL["reseal"]

BATCH_SIZE = 100
"""Secrets in one transaction: whoever stores a new value of one of them waits for it."""
_START = SecretUri(Scope("", ""), "")


class Rotation(msgspec.Struct, frozen=True):
    """The result of a rotation."""

    resealed: int = 0
    """Secrets whose data keys the new master key encrypts now."""
    damaged: tuple[str, ...] = ()
    """URIs of secrets that the old master key does not decrypt, though their rows say so. They stay as they
    are, and must be stored again."""


async def rotate(
    database: Database,
    old: Seal,
    new: Seal,
    *,
    batch_size: int = BATCH_SIZE,
    progress: Callable[[int], object] | None = None,
) -> Rotation:
    """Encrypts all data keys and signing keys of the old master key with the new one, in small transactions.
    `progress` is called after each with the number of secrets so far."""
    await database.write(reseal_signing_keys, old, new)
    resealed = 0
    while True:
        # A process that still encrypts with the old one may have stored something behind the last batch.
        found, damaged, last = 0, list[str](), _START
        while (batch := await database.write(_reseal_batch, old, new, last, batch_size)) is not None:
            found, resealed, last = found + batch.found, resealed + batch.resealed, batch.last
            damaged += batch.damaged
            if progress is not None:
                progress(resealed)
        if found == len(damaged):
            return Rotation(resealed, tuple(damaged))


class _Batch(msgspec.Struct, frozen=True):
    found: int
    resealed: int
    damaged: tuple[str, ...]
    last: SecretUri


def _reseal_batch(old: Seal, new: Seal, after: SecretUri, limit: int) -> Steps[_Batch | None]:
    place = columns(after)
    rows = (
        yield BATCH(
            master_key_id=old.key_ids[0],
            after_org=place["org_id"],
            after_project=place["project_id"],
            after_name=place["name"],
            limit=limit,
        )
    ).rows
    if not rows:
        return None
    changes: list[dict[str, Any]] = []
    damaged = []
    for row in rows:
        uri = _uri(row)
        former = bytes(row["data_key"])
        try:
            data_key = reseal_data_key(former, uri, row["version"], old, new)
        except WrongSeal:
            damaged.append(str(uri))
            continue
        change = {"master_key_id": new.key_ids[0], "data_key": data_key, "former": former}
        changes.append({**columns(uri), **change})
    done = (yield RESEAL.each(changes)).changed if changes else 0
    return _Batch(len(rows), done, tuple(damaged), _uri(rows[-1]))


def _uri(row: Row) -> SecretUri:
    return SecretUri(Scope(row["org_id"], row["project_id"] or None), row["name"])
