"""JSON values as the types that a function asks for, and back."""

from __future__ import annotations

import dataclasses
import enum
import types
import typing

from plughost_sdk.vai.outcome import Failed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

ABSENT = dataclasses.MISSING


class Mismatch(Failed):
    """Says which member is not what it should be."""


def is_record(kind: Any) -> bool:
    return isinstance(kind, type) and (dataclasses.is_dataclass(kind) or typing.is_typeddict(kind))


def record(kind: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """The types of a record's members, and the defaults of those that may be left out, or ABSENT."""
    hints = typing.get_type_hints(kind, include_extras=True)
    if typing.is_typeddict(kind):
        optional = {name: ABSENT for name, hint in hints.items() if _is_optional(kind, name, hint)}
        return {name: _bare(hint) for name, hint in hints.items()}, optional
    fields = [field for field in dataclasses.fields(kind) if field.init]
    defaults = {
        field.name: field.default
        for field in fields
        if field.default is not ABSENT or field.default_factory is not ABSENT
    }
    return {field.name: hints[field.name] for field in fields}, defaults


def _is_optional(kind: Any, name: str, hint: Any) -> bool:
    """Annotations that are text hide their NotRequired from the class, but not from get_type_hints."""
    said = typing.get_origin(hint)
    if said in (typing.Required, typing.NotRequired):
        return said is typing.NotRequired
    return name in kind.__optional_keys__


def _bare(hint: Any) -> Any:
    wrapped = typing.get_origin(hint) in (typing.Required, typing.NotRequired)
    return typing.get_args(hint)[0] if wrapped else hint


def is_union(kind: Any) -> bool:
    return typing.get_origin(kind) in (typing.Union, types.UnionType)


def from_json(kind: Any, value: Any, where: str) -> Any:  # noqa: PLR0912
    """Mismatch if the value is not of that type."""
    origin, args = typing.get_origin(kind), typing.get_args(kind)
    if kind is typing.Any or kind is object:
        return value
    if origin is typing.Annotated:
        return from_json(args[0], value, where)
    if is_union(kind):
        return _one_of(args, value, where)
    if origin is typing.Literal:
        fits = any(value == each and type(value) is type(each) for each in args)
    elif is_record(kind):
        return _record_from(kind, value, where)
    elif isinstance(kind, type) and issubclass(kind, enum.Enum):
        fits = value in [each.value for each in kind]
        value = kind(value) if fits else value
    elif (origin or kind) is list:
        fits = isinstance(value, list)
        if fits and args:
            value = [from_json(args[0], each, f"{where}[{at}]") for at, each in enumerate(value)]
    elif (origin or kind) is dict:
        fits = isinstance(value, dict)
        if fits and args:
            value = {name: from_json(args[1], each, f"{where}.{name}") for name, each in value.items()}
    elif kind is float:
        fits = isinstance(value, (int, float)) and not isinstance(value, bool)
    elif kind is None or kind is type(None):
        fits = value is None
    else:
        fits = isinstance(value, kind) and (kind is bool or not isinstance(value, bool))
    if not fits:
        raise Mismatch(f"{where} is not {getattr(kind, '__name__', kind)}: {value!r:.60}")
    return value


def _one_of(kinds: tuple[Any, ...], value: Any, where: str) -> Any:
    for kind in kinds:
        try:
            return from_json(kind, value, where)
        except Mismatch:
            continue
    names = " or ".join(getattr(kind, "__name__", str(kind)) for kind in kinds)
    raise Mismatch(f"{where} is not {names}: {value!r:.60}")


def _record_from(kind: Any, value: Any, where: str) -> Any:
    if not isinstance(value, dict):
        raise Mismatch(f"{where} is an object, not {value!r:.60}")
    hints, defaults = record(kind)
    if unknown := value.keys() - hints.keys():
        raise Mismatch(f"{where} has no {', '.join(sorted(unknown))}; it has {', '.join(hints)}")
    if missing := [name for name in hints if name not in value and name not in defaults]:
        raise Mismatch(f"{where}.{missing[0]} is missing")
    members = {name: from_json(hints[name], each, f"{where}.{name}") for name, each in value.items()}
    return members if typing.is_typeddict(kind) else kind(**members)


def to_json(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: to_json(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, enum.Enum):
        return to_json(value.value)
    if isinstance(value, dict):
        return {name: to_json(each) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [to_json(each) for each in value]
    return value
