"""References of a JSON Schema: what is allowed in one so that each has a single meaning, and where it leads.

The cost of a schema is found by following its references before the checker does. Both must arrive at the
same place, or the cost is that of another schema. So there is one dialect, nothing inside a schema gives a
part of it an address of its own, and a reference is a plain JSON pointer from the root.
"""

from __future__ import annotations

import re
from typing import Any

DIALECT = "https://json-schema.org/draft/2020-12/schema"
_AT_ROOT = {"$schema", "$id"}
_REFUSED = {*_AT_ROOT, "id", "$anchor", "$dynamicAnchor", "$dynamicRef", "$recursiveAnchor", "$recursiveRef"}
"""Keywords, of any draft, that change what a reference means."""
_DATA = {"const", "enum", "default", "examples"}
"""Whose values are not schemas: an `id` in one is a member like any other."""
_NAMES = {"properties", "patternProperties", "dependentSchemas", "dependencies", "$defs", "definitions"}
"""Whose keys are names and not keywords."""
_REFERENCE = re.compile(r"#(?:/(?:[A-Za-z0-9_.$:@+=,!*()&;'-]|~[01])+)+")


def standalone(schema: Any) -> Any:
    """The schema as the checker gets it, without an address.

    ValueError where a reference could mean two things.
    """
    if not isinstance(schema, dict):
        return schema
    if (dialect := schema.get("$schema", DIALECT)) != DIALECT:
        raise ValueError(f"$schema: expected {DIALECT} or no $schema; got {str(dialect)[:100]!r}")
    if not isinstance(schema.get("$id", ""), str):
        raise ValueError("$id: expected a string")
    bare = {keyword: value for keyword, value in schema.items() if keyword not in _AT_ROOT}
    _refuse(bare, data=False, names=False)
    return bare


def _refuse(node: Any, *, data: bool, names: bool) -> None:
    """ValueError for one of these keywords anywhere, where its value makes it one: a string or a boolean."""
    if isinstance(node, list):
        for each in node:
            _refuse(each, data=data, names=False)
    if not isinstance(node, dict):
        return
    for keyword, value in node.items():
        # A property called `$id` has a schema, and that may be a boolean.
        is_keyword = isinstance(value, str) or (isinstance(value, bool) and not names)
        if keyword in _REFUSED and is_keyword and not (data and keyword == "id"):
            advice = "; use $ref" if keyword.endswith("Ref") else " inside a schema"
            raise ValueError(f"{keyword} is not accepted{advice}")
        _refuse(value, data=data or (keyword in _DATA and not names), names=keyword in _NAMES and not names)


def resolve(root: Any, reference: str) -> Any:
    """What a reference leads to; ValueError when it leads nowhere or elsewhere than into the schema."""
    if not reference.startswith("#/"):
        raise ValueError("a schema can refer only to itself, as in #/$defs/name")
    if not _REFERENCE.fullmatch(reference):  # a checker may decode it, and find something else
        why = "it has characters, such as % or a space, that are not allowed in a reference"
        raise ValueError(f"the reference {reference[:100]!r} is not accepted: {why}")
    node = root
    for part in reference.removeprefix("#/").split("/"):
        name = part.replace("~1", "/").replace("~0", "~")
        if not isinstance(node, dict) or name not in node:
            raise ValueError(f"the reference {reference[:100]!r} does not exist in the schema")
        node = node[name]
    return node
