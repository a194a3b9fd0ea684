"""Envelope encryption: each value is encrypted with a data key of its own, which the master key encrypts.

So a new master key needs new data keys only, never the values. Tenant, name and version are authenticated
with both: nobody who can write to the database can put one value in the place of another.
"""

from __future__ import annotations

import os

import msgspec

from plughost.gateway.secrets.uri import SecretUri
from plughost.vai.database.sealing import KEY_BYTES, Seal

DATA_KEY, VALUE = "secret data key", "secret value"
"""The purposes of the two seals."""


class Envelope(msgspec.Struct, frozen=True):
    """An encrypted value: the id of the master key, the encrypted data key, and the encrypted value."""

    master_key_id: str
    data_key: bytes
    sealed: bytes


def seal_value(value: str, uri: SecretUri, version: int, master: Seal) -> Envelope:
    """Encrypts a value with a new data key."""
    data_key, place = os.urandom(KEY_BYTES), _place(uri, version)
    return Envelope(
        master_key_id=master.key_ids[0],
        data_key=master.seal(data_key, purpose=DATA_KEY, name=place),
        sealed=Seal(data_key).seal(value.encode(), purpose=VALUE, name=place),
    )


def open_value(envelope: Envelope, uri: SecretUri, version: int, master: Seal) -> str:
    """Decrypts a value. WrongSeal when it belongs to another place, or the master key is another one."""
    place = _place(uri, version)
    data_key = master.unseal(envelope.data_key, purpose=DATA_KEY, name=place)
    return Seal(data_key).unseal(envelope.sealed, purpose=VALUE, name=place).decode()


def reseal_data_key(data_key: bytes, uri: SecretUri, version: int, old: Seal, new: Seal) -> bytes:
    """Encrypts a data key with another master key. WrongSeal when the old one does not decrypt it."""
    place = _place(uri, version)
    return new.seal(old.unseal(data_key, purpose=DATA_KEY, name=place), purpose=DATA_KEY, name=place)


def _place(uri: SecretUri, version: int) -> str:
    """The place of a value, as JSON, so that no two places have the same text."""
    return msgspec.json.encode([uri.scope.org_id, uri.scope.project_id, uri.name, version]).decode()
