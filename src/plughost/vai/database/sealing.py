"""Seal: encrypts small values, such as keys, before they are stored (AES-256-GCM)."""

from __future__ import annotations

import hashlib
import os

import msgspec

KEY_BYTES = 32
_NONCE_BYTES = 12
_VERSION = b"\x01"
"""The first byte of a sealed value: how the rest was made."""
_KEY_ID_BYTES = 8


class WrongSeal(Exception):
    """A value that was sealed with another key, for another purpose or name, or changed since."""


class Seal:
    """Encrypts with a key of 32 bytes, and decrypts with that one or an older one: while a key is replaced,
    values of both are stored. Each value is bound to its purpose and name, so that nobody who can write to
    the database can put one in the place of another."""

    def __init__(self, key: bytes, *older: bytes) -> None:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        self._ciphers = [AESGCM(each) for each in (key, *older)]
        self.key_ids = tuple(key_id(each) for each in (key, *older))
        """The ids of its keys; the first is the one that encrypts."""

    def __repr__(self) -> str:
        return "<Seal>"

    def seal(self, value: bytes, *, purpose: str, name: str) -> bytes:
        """The encrypted value. Another one each time, even for an equal value."""
        nonce = os.urandom(_NONCE_BYTES)
        return _VERSION + nonce + self._ciphers[0].encrypt(nonce, value, _bound_to(purpose, name))

    def unseal(self, sealed: bytes, *, purpose: str, name: str) -> bytes:
        """The value that was sealed for that purpose and name. Raises WrongSeal."""
        from cryptography.exceptions import InvalidTag

        rest = sealed.removeprefix(_VERSION)
        if len(rest) == len(sealed):
            raise WrongSeal
        for cipher in self._ciphers:
            try:
                return cipher.decrypt(rest[:_NONCE_BYTES], rest[_NONCE_BYTES:], _bound_to(purpose, name))
            except (InvalidTag, ValueError):  # ValueError: too short
                pass
        raise WrongSeal


def key_id(key: bytes) -> str:
    """The id of a key, which says nothing about the key: keys are random."""
    return hashlib.sha256(b"plughost key id\0" + key).hexdigest()[: 2 * _KEY_ID_BYTES]


def _bound_to(purpose: str, name: str) -> bytes:
    """The associated data, which is authenticated and not stored; as JSON, so that no two pairs are equal."""
    return msgspec.json.encode(["plughost", purpose, name])
