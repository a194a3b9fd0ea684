"""Types as JSON Schema 2020-12.

`Annotated[int, "how many", {"minimum": 1}]`: text describes, a dict adds keywords. Of a record it is the
docstring that describes.
"""

from __future__ import annotations

import enum
import typing

from plughost_sdk.vai.convert import ABSENT, is_record, is_union, record, to_json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Schema = dict[str, Any]

DIALECT = "https://json-schema.org/draft/2020-12/schema"
SIMPLE: dict[Any, str] = {
    str: "string", int: "integer", float: "number", bool: "boolean", type(None): "null", None: "null",
}  # fmt: skip


def document(kind: Any) -> Schema:
    """A whole schema. A record that holds itself is in `$defs`."""
    definitions: Schema = {}
    return _whole(_schema(kind, definitions, ()), definitions)


def of_members(hints: dict[str, Any], defaults: dict[str, Any]) -> Schema:
    """A whole schema for an object with these members."""
    definitions: Schema = {}
    return _whole(_object(hints, defaults, definitions, ()), definitions)


def _whole(schema: Schema, definitions: Schema) -> Schema:
    defined = {name: each for name, each in sorted(definitions.items()) if each is not None}
    return {"$schema": DIALECT, **schema, **({"$defs": defined} if defined else {})}


def _schema(kind: Any, definitions: Schema, within: tuple[Any, ...]) -> Schema:
    origin, args = typing.get_origin(kind), typing.get_args(kind)
    if kind is typing.Any or kind is object:
        return {}
    if origin is typing.Annotated:
        schema = _schema(args[0], definitions, within)
        for more in args[1:]:
            if isinstance(more, str):
                schema["description"] = more
            elif isinstance(more, dict):
                schema |= more
        return schema
    if kind in SIMPLE:
        return {"type": SIMPLE[kind]}
    if is_union(kind):
        return _union([_schema(each, definitions, within) for each in args])
    if origin is typing.Literal:
        return {"enum": [*args]}
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return {"enum": [to_json(each) for each in kind]}
    if (origin or kind) is list:
        return {"type": "array", **({"items": _schema(args[0], definitions, within)} if args else {})}
    if (origin or kind) is dict:
        more = {"additionalProperties": _schema(args[1], definitions, within)} if args else {}
        return {"type": "object", **more}
    if is_record(kind):
        return _record(kind, definitions, within)
    told = "str, int, float, bool, None, list, dict, Literal, enums, unions, dataclasses and TypedDicts"
    raise TypeError(f"no JSON Schema for {kind!r}; there is one for {told}")


def _union(choices: list[Schema]) -> Schema:
    """Plain types share one word: {"type": ["string", "null"]}."""
    if all(choice.keys() == {"type"} and isinstance(choice["type"], str) for choice in choices):
        return {"type": [choice["type"] for choice in choices]}
    return {"anyOf": choices}


def _record(kind: Any, definitions: Schema, within: tuple[Any, ...]) -> Schema:
    name = kind.__name__
    if kind in within:
        definitions.setdefault(name, None)
        return {"$ref": f"#/$defs/{name}"}
    hints, defaults = record(kind)
    schema = _object(hints, defaults, definitions, (*within, kind))
    # A dataclass without a docstring gets its signature for one.
    said = (kind.__doc__ or "").strip()
    if said and not said.startswith(f"{name}("):
        schema = {"type": "object", "description": " ".join(said.split()), **schema}
    if name in definitions:
        definitions[name] = schema
        return {"$ref": f"#/$defs/{name}"}
    return schema


def _object(
    hints: dict[str, Any], defaults: dict[str, Any], definitions: Schema, within: tuple[Any, ...]
) -> Schema:
    properties = {name: _schema(hint, definitions, within) for name, hint in hints.items()}
    for name, default in defaults.items():
        if name in properties and default is not ABSENT and default is not None:
            properties[name] = {**properties[name], "default": to_json(default)}
    required = [name for name in hints if name not in defaults]
    return {
        "type": "object",
        "properties": properties,
        **({"required": required} if required else {}),
        "additionalProperties": False,
    }
