"""Signing keys of delegation tokens: one for all processes of a database, sealed with the master key."""

from __future__ import annotations

import base64
import time
from typing import Any

from plughost.errors import Denied, HostFailed
from plughost.vai.database.database import Database, Steps
from plughost.vai.database.master_key import MasterKey
from plughost.vai.database.sealing import Seal, WrongSeal
from plughost.vai.database.statements import load_statements

_SQL = load_statements(__file__)
ALL, INSERT, RESEAL = _SQL["all"], _SQL["insert"], _SQL["reseal"]

PURPOSE = "delegation tokens"
FIRST = "delegation-1"
"""The name of the first key. Names of later ones begin with `delegation-`, too."""


class SigningKey:
    """A private Ed25519 key. Its name is the `kid` of its tokens."""

    def __init__(self, name: str, private: bytes) -> None:
        self.name = name
        self._private = private

    def __repr__(self) -> str:
        return f"<SigningKey {self.name}>"

    @classmethod
    def generate(cls, name: str = FIRST) -> SigningKey:
        """A new key, which is nowhere else."""
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

        return cls(name, Ed25519PrivateKey.generate().private_bytes_raw())

    def sealable(self) -> bytes:
        """The private key, to be sealed."""
        return self._private

    def as_jwk(self) -> Any:
        """The private key as an object of the library joserfc."""
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
        from joserfc.jwk import OKPKey

        public = Ed25519PrivateKey.from_private_bytes(self._private).public_key().public_bytes_raw()
        parts: dict[str, str | list[str]] = {
            "kty": "OKP",
            "crv": "Ed25519",
            "x": _text(public),
            "d": _text(self._private),
        }
        return OKPKey.import_key(parts)


class SigningKeys:
    """The signing keys in a database. Nothing is created before the first `load`."""

    def __init__(self, database: Database, master_key: MasterKey) -> None:
        self._database = database
        self._master_key = master_key

    async def load(self) -> list[SigningKey]:
        """All keys, the newest first; creates the first one. HostFailed when the master key does not fit."""
        _require_libraries()
        rows = (await self._database.read(ALL())).rows
        seal = await self._master_key.seal(create=not rows)
        if seal is None:
            raise HostFailed(
                f"the signing key in the database is encrypted, and {self._master_key.path} does not exist",
                hint=_remedy(self._master_key.path),
            )
        if not rows:
            made = SigningKey.generate(FIRST)
            sealed = seal.seal(made.sealable(), purpose=PURPOSE, name=made.name)
            await self._database.write(INSERT(name=made.name, created_at=time.time(), sealed=sealed))
            rows = (await self._database.read(ALL())).rows
        keys = []
        for row in rows:
            name = row["name"]
            try:
                keys.append(SigningKey(name, seal.unseal(bytes(row["sealed"]), purpose=PURPOSE, name=name)))
            except WrongSeal:
                raise HostFailed(
                    f"the signing key {name} in the database cannot be decrypted: it was encrypted with "
                    "another master key, or changed",
                    hint=_remedy(self._master_key.path),
                ) from None
        return keys


def reseal_signing_keys(old: Seal, new: Seal) -> Steps[int]:
    """Encrypts the keys of an old master key with a new one; returns how many. Others stay as they are."""
    changes = []
    for row in (yield ALL()).rows:
        name, sealed = row["name"], bytes(row["sealed"])
        try:
            private = old.unseal(sealed, purpose=PURPOSE, name=name)
        except WrongSeal:
            continue  # it has the new one already, or is unknown to both
        changes.append({"name": name, "sealed": new.seal(private, purpose=PURPOSE, name=name)})
    if changes:
        yield RESEAL.each(changes)
    return len(changes)


def _remedy(path: str) -> str:
    return (
        "use the master key of the host that used this database first: copy its master.key to "
        f"{path} with mode 600, or pass the same bytes as VaiRuntime(master_key=…) in all processes. If that "
        "master key is lost, delete the row from the table signing_keys: the next token gets a new key"
    )


def _text(value: bytes) -> str:
    return base64.urlsafe_b64encode(value).rstrip(b"=").decode()


def _require_libraries() -> None:
    try:
        import cryptography  # noqa: F401
        import joserfc  # noqa: F401
    except ImportError as error:
        raise Denied(
            "delegated credentials need the packages cryptography and joserfc",
            hint="pip install 'plughost[vai]'",
        ) from error
