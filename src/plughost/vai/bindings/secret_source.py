"""Secrets: a binding names them (`secret://owner/name`), an invocation is given their values."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Protocol

import msgspec

from plughost._util.redaction.secret_set import MAX_IGNORED
from plughost.errors import InvalidSpec
from plughost.vai.bindings.binding import Scope

_URI = re.compile(r"secret://([A-Za-z0-9_.-]+)/([A-Za-z0-9_.-]+)")
MAX_BYTES = 64 << 10
"""Bytes of a secret."""


class SecretUse(msgspec.Struct, frozen=True, kw_only=True):
    """The use of a secret: the binding that maps it, and the invocation that is given its value."""

    binding_id: str
    package_id: str
    owner: Scope
    """The tenant that the binding belongs to."""
    tenant: Scope
    """The tenant that the invocation is executed for: a project may use a binding of its organisation."""
    invocation_id: str


class SecretSource(Protocol):
    """Resolves the names of secrets to their values, such as a secret manager."""

    async def reveal(self, uri: str, use: SecretUse) -> str:
        """The current value of `secret://owner/name`; InvalidSpec when there is none for that use."""


class SecretFolder:
    """Secrets in files that only their owner may read: `FOLDER/owner/name`, as secret managers mount them."""

    def __init__(self, folder: str) -> None:
        self._folder = folder

    def __repr__(self) -> str:
        return f"SecretFolder({self._folder!r})"

    async def reveal(self, uri: str, use: SecretUse) -> str:
        """The content of the file, without its final newline; the same for every use."""
        match = _URI.fullmatch(uri)
        if match is None or match[1] in (".", "..") or match[2] in (".", ".."):
            raise InvalidSpec(f"{uri!r} names no secret; write secret://owner/name")
        return _read(os.path.join(self._folder, match[1], match[2]), uri)


async def reveal_all(
    source: SecretSource, uris: Mapping[str, str], slots: list[str], use: SecretUse
) -> dict[str, str]:
    """The values of an export's secret slots. InvalidSpec for a slot that the binding does not fill.

    Also for a value that is too short to be redacted: a single character occurs in every text.
    """
    missing = [slot for slot in slots if slot not in uris]
    if missing:
        raise InvalidSpec(f"the binding has no secret for the slot {', '.join(missing)}")
    values = {slot: await source.reveal(uris[slot], use) for slot in slots}
    for slot, value in values.items():
        if len(value) <= MAX_IGNORED:
            raise InvalidSpec(
                f"the secret {uris[slot]} is too short to be redacted reliably",
                hint=f"use at least {MAX_IGNORED + 1} characters; put values that are not secret into config",
            )
    return values


def _open_nofollow(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC)


def _read(path: str, uri: str) -> str:
    try:
        with open(path, "rb", opener=_open_nofollow) as file:
            if os.fstat(file.fileno()).st_mode & 0o077:
                raise InvalidSpec(f"{path} can be read by other users", hint=f"chmod 600 {path}")
            value = file.read(MAX_BYTES + 1)
        if len(value) > MAX_BYTES:
            raise InvalidSpec(f"{path} is larger than {MAX_BYTES} bytes")
        return value.decode().removesuffix("\n")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        raise InvalidSpec(
            f"the secret {uri} cannot be read: {reason}", hint=f"write its value to {path}, with mode 600"
        ) from None
