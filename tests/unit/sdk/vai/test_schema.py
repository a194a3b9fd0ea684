"""Functions as JSON Schema: what is written, and that a validator and the SDK agree on it."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, NotRequired, TypedDict

import jsonschema_rs
import pytest

from plughost_sdk import vai
from plughost_sdk.vai.convert import Mismatch, to_json
from plughost_sdk.vai.schema import document
from plughost_sdk.vai.signature import Signature


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


@dataclass
class Point:
    x: int
    y: float = 1.5
    tags: list[str] = field(default_factory=list)
    colour: Colour = Colour.RED


class Query(TypedDict):
    words: str
    limit: NotRequired[Annotated[int, "at most", {"minimum": 1}]]


@dataclass
class Tree:
    """Holds itself."""

    name: str
    below: list[Tree] = field(default_factory=list)


def whole(input: Query, context: vai.Context) -> Point: ...
def pointed(input: Point) -> None: ...
def members(a: int, b: str | None = None, *, kind: Literal["x", "y"] = "x", context): ...
def loose(input): ...
def tree(input: Tree): ...
def mixed(points: list[Point], by_name: dict[str, int], anything: Any, flag: bool = False): ...


def signature(function):
    return Signature(function, {})


def test_what_is_written():
    assert signature(whole).input_schema() == {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "properties": {
            "words": {"type": "string"},
            "limit": {"type": "integer", "description": "at most", "minimum": 1},
        },
        "required": ["words"],
        "additionalProperties": False,
    }
    assert signature(whole).output_schema() == document(Point)
    assert signature(pointed).output_schema() is signature(loose).output_schema() is None
    assert signature(members).input_schema()["properties"] == {
        "a": {"type": "integer"},
        "b": {"type": ["string", "null"]},
        "kind": {"enum": ["x", "y"], "default": "x"},
    }
    assert signature(loose).input_schema() == {"$schema": document(str)["$schema"], "type": "object"}
    assert document(Tree)["$defs"]["Tree"]["description"] == "Holds itself."


@pytest.mark.clause("VAI-50")
@pytest.mark.parametrize(
    ("function", "given", "fits"),
    [
        (whole, {"words": "a"}, True),
        (whole, {"words": "a", "limit": 3}, True),
        (whole, {"words": "a", "more": 1}, False),
        (whole, {}, False),
        (whole, [], False),
        (pointed, {"x": 1, "y": 2, "colour": "blue", "tags": ["a"]}, True),
        (pointed, {"x": 1.5}, False),
        (pointed, {"x": True}, False),
        (pointed, {"x": 1, "colour": "green"}, False),
        (pointed, {"x": 1, "tags": [1]}, False),
        (members, {"a": 1, "b": None, "kind": "y"}, True),
        (members, {"a": 1, "kind": "z"}, False),
        (members, {"a": 1, "context": 5}, False),
        (members, {"b": "x"}, False),
        (loose, {"whatever": [1]}, True),
        (loose, 5, False),
        (tree, {"name": "a", "below": [{"name": "b", "below": []}]}, True),
        (tree, {"name": "a", "below": [{"below": []}]}, False),
        (mixed, {"points": [{"x": 1}], "by_name": {"a": 1}, "anything": None}, True),
        (mixed, {"points": [{"x": 1}], "by_name": {"a": "1"}, "anything": None}, False),
        (mixed, {"points": {}, "by_name": {}, "anything": 1, "flag": 1}, False),
    ],
)
def test_a_validator_and_the_sdk_take_the_same(function, given, fits):
    told = signature(function)
    assert jsonschema_rs.validator_for(told.input_schema()).is_valid(given) == fits
    if fits:
        told.arguments(given, None)
    else:
        with pytest.raises(Mismatch, match="input"):
            told.arguments(given, None)


def test_values_come_as_their_types_and_go_back():
    told = signature(mixed).arguments({"points": [{"x": 1}], "by_name": {}, "anything": 5}, None)
    assert told["points"] == [Point(1)]
    assert to_json((told["points"], Colour.BLUE)) == [
        [{"x": 1, "y": 1.5, "tags": [], "colour": "red"}],
        "blue",
    ]
    assert signature(whole).arguments({"words": "a"}, "c") == {"input": {"words": "a"}, "context": "c"}


def test_what_cannot_be_told_in_a_schema_is_refused_at_the_start():
    def odd(a: complex): ...
    def many(*a): ...
    def placed(a, /): ...

    with pytest.raises(TypeError, match="no JSON Schema"):
        signature(odd).check()
    with pytest.raises(TypeError, match="must name the members of its input"):
        signature(many)
    with pytest.raises(TypeError, match="by position only"):
        signature(placed).check()


def test_decorators_refuse_what_they_do_not_know():
    plugin = vai.Plugin()
    with pytest.raises(TypeError, match="has no colour; it takes config"):
        plugin.tool(colour="red")
    with pytest.raises(TypeError, match="has no subscribes_to"):
        plugin.tool(subscribes_to=[])
    with pytest.raises(ValueError, match="is not a valid export id"):
        plugin.tool("Not An Id")(lambda: None)
    with pytest.raises(TypeError, match="calls one"):

        @plugin.hook
        def one(event, context, more): ...

    plugin.tool("twice")(lambda: None)
    with pytest.raises(ValueError, match="unique in a package"):
        plugin.hook("twice")(lambda: None)


def test_a_class_of_plugins_marks_its_methods():
    class Mine(vai.Plugin):
        @vai.Plugin.tool(effect_class="read_only")
        def add(self, a: int, b: int = 1) -> int:
            return a + b

    [export] = Mine().exports.values()
    assert (export.id, export.options) == ("add", {"effect_class": "read_only"})
    assert export.call({"input": {"a": 2}}, None) == 3
    assert [*export.signature.input_schema()["properties"]] == ["a", "b"]
