"""Seal: encrypts small values, such as keys, before they are stored (AES-256-GCM)."""

from __future__ import annotations

import os

import msgspec

KEY_BYTES = 32
_NONCE_BYTES = 12
_VERSION = b"\x01"
"""The first byte of a sealed value: how the rest was made."""


class WrongSeal(Exception):
    """A value that was sealed with another key, for another purpose or name, or changed since."""


class Seal:
    """Encrypts with a key of 32 bytes. Each value is bound to its purpose and name, so that nobody who can
    write to the database can put one in the place of another."""

    def __init__(self, key: bytes) -> None:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        self._cipher = AESGCM(key)

    def __repr__(self) -> str:
        return "<Seal>"

    def seal(self, value: bytes, *, purpose: str, name: str) -> bytes:
        """The encrypted value. Another one each time, even for an equal value."""
        nonce = os.urandom(_NONCE_BYTES)
        return _VERSION + nonce + self._cipher.encrypt(nonce, value, _bound_to(purpose, name))

    def unseal(self, sealed: bytes, *, purpose: str, name: str) -> bytes:
        """The value that was sealed for that purpose and name. Raises WrongSeal."""
        from cryptography.exceptions import InvalidTag

        rest = sealed.removeprefix(_VERSION)
        if len(rest) == len(sealed):
            raise WrongSeal
        try:
            return self._cipher.decrypt(rest[:_NONCE_BYTES], rest[_NONCE_BYTES:], _bound_to(purpose, name))
        except (InvalidTag, ValueError):  # ValueError: too short
            raise WrongSeal from None


def _bound_to(purpose: str, name: str) -> bytes:
    """The associated data, which is authenticated and not stored; as JSON, so that no two pairs are equal."""
    return msgspec.json.encode(["plughost", purpose, name])
