"""MethodDescription: what a manifest, a handshake or an operator says about one thing that can be called."""

from __future__ import annotations

from typing import Any

import msgspec

MAX_METHODS = 1000
"""Methods that one source may describe for one plugin; further ones are left out."""


class MethodDescription(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What somebody says about one thing that can be called. It grants nothing and checks nothing."""

    name: str
    kind: str = "method"
    title: str = ""
    description: str = ""
    input_schema: Any = None
    """A JSON Schema of the params."""
    output_schema: Any = None
