"""Names of wire types in words, for the wire-surface listing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec import inspect

_PLAIN: dict[type, str] = {
    inspect.AnyType: "anything",
    inspect.RawType: "anything",
    inspect.NoneType: "null",
    inspect.BoolType: "boolean",
    inspect.FloatType: "number",
    inspect.BytesType: "base64",
}


class TypeNames:
    """Describes types in words, and collects the structs that it meets on the way."""

    def __init__(self) -> None:
        self._structs: dict[type[msgspec.Struct], None] = {}

    def add(self, struct: type[msgspec.Struct]) -> None:
        """Adds a struct to the collection."""
        self._structs.setdefault(struct)

    def structs(self) -> Iterator[type[msgspec.Struct]]:
        """The collected structs and those nested in them, sorted by name."""
        visited: set[type[msgspec.Struct]] = set()
        while new := [struct for struct in self._structs if struct not in visited]:
            for struct in new:
                visited.add(struct)
                list(self.members(struct))
        yield from sorted(visited, key=lambda struct: struct.__name__)

    def name(self, kind: Any) -> str:
        """A type in words."""
        return self._describe(inspect.type_info(kind))

    def members(self, struct: type[msgspec.Struct]) -> Iterator[str]:
        """Yields a line for each member of a struct; one without a default is required."""
        name, config = struct.__name__, struct.__struct_config__
        if config.tag is not None:
            yield f"{name}.{config.tag_field}: {config.tag!r}"
        for field in msgspec.structs.fields(struct):
            yield f"{name}.{field.encode_name}: {self.name(field.type)}{_default(field)}"
        if not struct.__struct_fields__ and config.tag is None:
            yield f"{name}: {{}}"
        if config.omit_defaults:
            yield f"{name}: defaults are left out"
        if config.forbid_unknown_fields:
            yield f"{name}: no other members"

    def _describe(self, info: inspect.Type) -> str:
        match info:
            case inspect.Metadata():  # marks that say nothing about the wire
                return self._describe(info.type)
            case inspect.IntType(gt=None, lt=None):
                return "integer" + _bounds(info.ge, info.le)
            case inspect.StrType(pattern=None):
                return "text" + _bounds(info.min_length, info.max_length)
            case inspect.ListType() | inspect.VarTupleType():
                return f"list of {self._describe(info.item_type)}"
            case inspect.TupleType():
                return f"[{', '.join(map(self._describe, info.item_types))}]"
            case inspect.DictType():
                return "object"
            case inspect.LiteralType():
                return " or ".join(map(repr, info.values))
            case inspect.UnionType():
                return " or ".join(map(self._describe, info.types))
            case inspect.StructType():
                self.add(info.cls)
                return info.cls.__name__
        return _PLAIN[type(info)]

    @staticmethod
    def shape(value: Any) -> str:
        """Describes a JSON value whose members are type names already."""
        if isinstance(value, dict):
            return "{" + ", ".join(f"{name}: {TypeNames.shape(part)}" for name, part in value.items()) + "}"
        return str(value)


def _bounds(least: int | None, most: int | None) -> str:
    if least is None and most is None:
        return ""
    return f" {'' if least is None else least}..{'' if most is None else most}"


def _default(field: msgspec.structs.FieldInfo) -> str:
    if field.required:
        return ""
    value = field.default
    if field.default_factory is not msgspec.NODEFAULT:
        value = field.default_factory()
    if isinstance(value, msgspec.Struct):
        return f" = {type(value).__name__}()"
    if value is msgspec.UNSET or (isinstance(value, msgspec.Raw) and not bytes(value)):
        return " = absent"
    return f" = {msgspec.json.encode(value).decode()}"
