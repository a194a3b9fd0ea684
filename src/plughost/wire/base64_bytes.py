"""Bytes inside JSON: padded base64; an array of numbers, an older form, is read and never written."""

from __future__ import annotations

from typing import Annotated

import msgspec

Octet = Annotated[int, msgspec.Meta(ge=0, le=255)]
Octets = bytes | list[Octet]
"""As a member's type: what was read is `decode_plain(member)`."""


def decode_plain(octets: Octets) -> bytes:
    return bytes(octets)
