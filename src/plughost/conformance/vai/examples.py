"""A value that most likely fits a JSON Schema: enough to get a tool to do something."""

from __future__ import annotations

from typing import Any

DEEPEST = 8
_PLAIN: dict[str, Any] = {"string": "example", "integer": 1, "number": 1, "boolean": False, "null": None}


def example(schema: Any, depth: int = 0) -> Any:
    """Required members only, each as plain as its schema allows."""
    if not isinstance(schema, dict) or depth > DEEPEST:
        return {}
    for word in ("const", "default"):
        if word in schema:
            return schema[word]
    for word in ("examples", "enum"):
        if isinstance(schema.get(word), list) and schema[word]:
            return schema[word][0]
    kind = schema.get("type")
    kind = kind[0] if isinstance(kind, list) and kind else kind
    if kind == "array":
        least = schema.get("minItems", 0)
        return [example(schema.get("items"), depth + 1)] * (least if isinstance(least, int) else 0)
    if kind in ("integer", "number"):
        return schema.get("minimum", _PLAIN[kind])
    if kind in _PLAIN:
        return _PLAIN[kind]
    members, required = schema.get("properties"), schema.get("required")
    if not isinstance(members, dict) or not isinstance(required, list):
        return {}
    return {name: example(members.get(name), depth + 1) for name in required if isinstance(name, str)}
