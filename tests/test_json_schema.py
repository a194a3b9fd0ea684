"""Schemas of strangers: what is small stays quick to check, and the rest is refused."""

from __future__ import annotations

import time
from typing import Any

import pytest

from plughost.base.json_schema import Checker, wrong

TREE = {"type": "object", "properties": {"below": {"type": "array", "items": {"$ref": "#/$defs/Tree"}}}}
OPTIONAL = {"anyOf": [{"$ref": "#/$defs/Tree"}, {"type": "null"}]}
PAIR = {"type": "object", "properties": {"left": OPTIONAL, "right": OPTIONAL}, "additionalProperties": False}
BY_NAME = {"type": "object", "additionalProperties": {"$ref": "#/$defs/Tree"}}
VIA = {"properties": {"via": {"$ref": "#/$defs/Other"}}}


def of(tree: Any, **others: Any) -> dict[str, Any]:
    return {"$ref": "#/$defs/Tree", "$defs": {"Tree": tree, **others}}


@pytest.mark.parametrize(
    ("schema", "fits", "fits_not"),
    [
        (of(TREE), {"below": [{"below": []}]}, {"below": [{"below": [1]}]}),
        (of(PAIR), {"left": {"right": None}}, {"left": {"right": {"left": 1}}}),
        (of(BY_NAME), {"a": {"b": {}}}, {"a": {"b": 1}}),
        (of(VIA, Other={"type": "object", **TREE}), {"via": {"below": [{}]}}, {"via": {"below": [{"via": 1}]}}),
        (of(PAIR) | {"$ref": "#/$defs/Two", "$defs": {"Tree": PAIR, "Two": {"properties": {"a": OPTIONAL, "b": OPTIONAL}}}},
         {"a": None, "b": {"left": {}}}, {"b": {"left": 1}}),
    ],
)  # fmt: skip
def test_a_schema_may_hold_itself_a_step_further_down(schema, fits, fits_not):
    checker = Checker(schema)
    assert (checker.fits(fits), checker.fits(fits_not)) == (True, False)
    assert checker.problems(fits_not) != []


@pytest.mark.parametrize(("tree", "step"), [(PAIR, lambda v: {"left": v}), (TREE, lambda v: {"below": [v]})])
def test_and_is_checked_in_a_moment_however_deep_a_value_is(tree, step):
    value: Any = 1
    began = time.perf_counter()
    for _ in range(5):
        assert Checker(of(tree)).problems(value) != []
        for _ in range(100):
            value = step(value)
    assert Checker(of(tree)).problems(value) == ["it does not fit, and is too many levels deep to say where"]
    assert Checker({"type": "string"}).problems(value) == Checker(of(tree)).problems(value)
    assert time.perf_counter() - began < 10


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        (of({"$ref": "#/$defs/Tree"}), "leads back to itself"),
        (of({"allOf": [{"$ref": "#/$defs/Tree"}]}), "leads back to itself"),
        (of({"not": {"$ref": "#/$defs/Other"}}, Other={"anyOf": [{"$ref": "#/$defs/Tree"}]}), "leads back to itself"),
        (of({"dependentSchemas": {"items": {"$ref": "#/$defs/Tree"}}}), "leads back to itself"),
        (of({"allOf": [TREE, TREE]}), "more than one way"),
        (of({"anyOf": [TREE, BY_NAME]}), "more than one way"),
        (of({**TREE, "unevaluatedProperties": False}), "more than one way"),
        (of({"allOf": [VIA, TREE]}, Other=VIA), "more than one way"),
        (of({**VIA, "allOf": [{"$ref": "#/$defs/Other"}]}, Other={"$ref": "#/$defs/Tree"}), "itself"),
        (of({}) | {"$ref": "#/$defs/Tre%65", "$defs": {"Tre%65": {}, "Tree": {}}}, "%"),
        ({"$defs": {f"d{n}": {"allOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 9} for n in range(9)} | {"d9": {}},
          "$ref": "#/$defs/d0"}, "more than 5000 parts"),
    ],
)  # fmt: skip
def test_what_would_keep_a_checker_busy_is_refused(schema, why):
    assert why in (wrong(schema) or "")
