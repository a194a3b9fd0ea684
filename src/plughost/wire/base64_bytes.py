"""Bytes in JSON as padded base64. An array of numbers, an older form, is accepted but never written."""

from __future__ import annotations

from typing import Annotated

import msgspec

Octet = Annotated[int, msgspec.Meta(ge=0, le=255)]
Octets = bytes | list[Octet]
"""The type of a struct member that holds bytes; read it with `decode_plain(member)`."""


def decode_plain(octets: Octets) -> bytes:
    """The bytes of a member, in whichever form it came."""
    return bytes(octets)
