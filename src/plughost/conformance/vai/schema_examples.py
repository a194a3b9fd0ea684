"""Generates example values for a JSON Schema: good enough to make a tool do something."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

DEEPEST = 8
_PLAIN: dict[str, Any] = {"string": "example", "integer": 1, "number": 1, "boolean": False, "null": None}


def example(schema: Any, depth: int = 0) -> Any:
    """An example with the required members only, each as simple as its schema allows."""
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


def marked(value: Any, schema: Any, mark: str, fits: Callable[[Any], bool]) -> Any:
    """The value with `mark` in every text, also in optional ones, where the schema allows it."""
    members = schema.get("properties") if isinstance(schema, dict) else None
    if isinstance(value, dict) and isinstance(members, dict):
        free = [name for name, member in members.items() if example(member) == _PLAIN["string"]]
        for name in free:
            value = _if_it_fits({**value, name: value.get(name, "")}, value, fits)
    for place in [*_texts(value)]:
        value = _if_it_fits(_with_mark(value, place, mark), value, fits)
    return value


def _if_it_fits(changed: Any, value: Any, fits: Callable[[Any], bool]) -> Any:
    return changed if fits(changed) else value


def _texts(value: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if isinstance(value, str):
        yield place
    elif isinstance(value, dict | list):
        for name, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _texts(inner, (*place, name))


def _with_mark(value: Any, place: tuple[Any, ...], mark: str) -> Any:
    if not place:
        return f"{value} {mark}".strip()
    name, *rest = place
    changed = _with_mark(value[name], tuple(rest), mark)
    if isinstance(value, dict):
        return {**value, name: changed}
    return [*value[:name], changed, *value[name + 1 :]]
