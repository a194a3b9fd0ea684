"""Cursors: opaque positions in lists, valid for one caller, list and set of filters only."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

import msgspec

from plughost.gateway.problems import Problem
from plughost.vai.database.sealing import Seal, WrongSeal

PURPOSE = "cursor"
MAX_LENGTH = 1000
"""Characters of a cursor; a longer one is refused unread."""


class Cursors:
    """Makes and reads cursors. They are encrypted and authenticated, so that nobody can make one."""

    def __init__(self, seal: Seal) -> None:
        self._seal = seal

    def encode(self, position: list[Any], *, caller: str, route: str, filters: Mapping[str, Any]) -> str:
        """The cursor for the items after a position."""
        sealed = self._seal.seal(
            msgspec.json.encode(position), purpose=PURPOSE, name=_bound_to(caller, route, filters)
        )
        return base64.urlsafe_b64encode(sealed).rstrip(b"=").decode()

    def decode(self, cursor: str, *, caller: str, route: str, filters: Mapping[str, Any]) -> list[Any]:
        """The position of a cursor; `invalid_cursor` for one of another caller, list or set of filters."""
        try:
            if len(cursor) > MAX_LENGTH:
                raise WrongSeal
            sealed = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
            plain = self._seal.unseal(sealed, purpose=PURPOSE, name=_bound_to(caller, route, filters))
        except (WrongSeal, ValueError):
            raise Problem(
                "invalid_cursor", "the cursor was not made for this caller, list and filters"
            ) from None
        return msgspec.json.decode(plain, type=list[Any])


def _bound_to(caller: str, route: str, filters: Mapping[str, Any]) -> str:
    given = sorted((name, str(value)) for name, value in filters.items() if value is not None)
    return msgspec.json.encode([caller, route, given]).decode()
