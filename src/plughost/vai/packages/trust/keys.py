"""Ed25519 keys of publishers: the private key in a file for its owner only, the public key as a line of
text."""

from __future__ import annotations

import base64
import hashlib
import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from plughost.errors import InvalidSpec

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

PREFIX = "ed25519:"
_MAX_BYTES = 16 << 10
_SPKI = bytes.fromhex("302a300506032b6570032100")
"""The prefix of the 32 bytes of an Ed25519 key in DER SubjectPublicKeyInfo form (RFC 8410)."""


_PRIME = 2**255 - 19
_Y_MASK = 2**255 - 1
_ORDER_8_Y = 0x05FC536D880238B13933C6D305ACDFD5F098EFF289F4C345B027B2C28F95E826
_WEAK = {0, 1, _PRIME - 1, _PRIME, _PRIME + 1, _ORDER_8_Y, _PRIME - _ORDER_8_Y}
"""The points of small order by their y coordinate, in every encoding: each has a signature that is valid for
any text."""


class PublicKey(msgspec.Struct, frozen=True):
    """An Ed25519 public key."""

    raw: bytes

    @property
    def text(self) -> str:
        """The key as `ed25519:` and base64."""
        return PREFIX + base64.b64encode(self.raw).decode()

    @property
    def id(self) -> str:
        """The SHA-256 of the DER form: what `openssl pkey -pubin -outform DER | sha256sum` prints."""
        return hashlib.sha256(_SPKI + self.raw).hexdigest()

    def to_crypto(self) -> Ed25519PublicKey:
        """The key as an object of the library cryptography."""
        require()
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

        return Ed25519PublicKey.from_public_bytes(self.raw)


def parse_public(text: str) -> PublicKey:
    """Parses a key such as `ed25519:…`; ValueError when it is not one."""
    if not text.startswith(PREFIX):
        raise ValueError(f"expected {PREFIX} and a key in base64")
    raw = exact_base64(text.removeprefix(PREFIX))
    if len(raw) != 32:
        raise ValueError("an Ed25519 key has 32 bytes")
    if (int.from_bytes(raw, "little") & _Y_MASK) in _WEAK:
        raise ValueError("it is a weak key: anybody can forge its signatures")
    return PublicKey(raw)


def exact_base64(text: str) -> bytes:
    """Decodes canonical base64; ValueError for any other spelling of the same bytes."""
    raw = base64.b64decode(text, validate=True)
    if base64.b64encode(raw).decode() != text:
        raise ValueError("not base64")
    return raw


def public_of(private: Ed25519PrivateKey) -> PublicKey:
    """The public key of a private key."""
    return PublicKey(private.public_key().public_bytes_raw())


def generate(path: Path) -> PublicKey:
    """Generates a key in `path`, for its owner only, and its public key in `path` + `.pub`. Overwrites
    nothing."""
    require()
    if not path.name:
        raise InvalidSpec(f"{path} is a folder", hint="name a file for the key")
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    private = Ed25519PrivateKey.generate()
    secret = private.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    public = private.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    _create(path.with_name(path.name + ".pub"), public, 0o644)
    try:
        _create(path, secret, 0o600)
    except InvalidSpec:
        path.with_name(path.name + ".pub").unlink()
        raise
    return public_of(private)


def read_private(path: Path) -> Ed25519PrivateKey:
    """Reads a private key from a file that nobody else may read."""
    require()
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    try:
        with path.open("rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            text = file.read(_MAX_BYTES)
    except OSError as error:
        raise InvalidSpec(f"the key {path} cannot be read: {error.strerror}") from error
    if stat.S_IMODE(mode) & 0o077:
        raise InvalidSpec(
            f"other users can read the key {path}", hint=f"run chmod 600 {path}, or make a new key"
        )
    try:
        private = load_pem_private_key(text, None)
    except (ValueError, TypeError) as error:
        raise InvalidSpec(f"{path} holds no private key that can be read without a password") from error
    if not isinstance(private, Ed25519PrivateKey):
        raise InvalidSpec(f"the key {path} is not an Ed25519 key", hint="plughost keygen makes one")
    return private


def require() -> None:
    """Raises InvalidSpec when the libraries for signatures are not installed."""
    try:
        import cryptography  # noqa: F401
        import securesystemslib  # noqa: F401
    except ImportError as error:
        raise InvalidSpec(
            "signatures need libraries that are not installed", hint="pip install 'plughost[vai]'"
        ) from error


def _create(path: Path, content: bytes, mode: int) -> None:
    try:
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
        with open(fd, "wb") as file:
            os.fchmod(fd, mode)
            file.write(content)
            file.flush()
            os.fsync(fd)
    except FileExistsError as error:
        raise InvalidSpec(f"{path} already exists", hint="name another file") from error
    except OSError as error:
        raise InvalidSpec(f"{path} cannot be written: {error.strerror}") from error
