"""Schemas of strangers: what is small stays quick to check, and the rest is refused."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from plughost.base import schema_cost
from plughost.base.json_schema import Checker, problems_apart, problems_at_once, wrong, wrong_at_once
from plughost.base.text import Head

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
    assert Checker(of(tree)).problems(value) == [
        Head("it does not fit, and is too many levels deep to say where")
    ]
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


HOSTILE = {"pattern": "(?:a[ab]{3000}c|b[ab]{3000}d)"}
MANY = {"properties": {f"p{number}": {"pattern": f"{number}[ab]{{3000}}"} for number in range(1000)}}


def test_a_value_that_takes_minutes_is_given_up_in_a_process_of_its_own():
    began = time.monotonic()
    assert problems_apart(HOSTILE, "ab" * 500_000, seconds=1) == ["checking it takes longer than 1 seconds"]
    assert time.monotonic() - began < 15
    assert problems_apart(HOSTILE, "ab" * 100, seconds=30)[0].startswith('"abab')
    assert problems_apart({"type": "string"}, "x", seconds=30) == []


def test_a_schema_that_takes_long_to_compile_is_compiled_in_a_process_of_its_own():
    assert wrong(MANY, seconds=0.001) == "compiling it takes longer than 0.001 seconds"
    assert wrong({**MANY, "type": "objekt"}, seconds=60) is not None
    assert wrong({"properties": {"a": {"pattern": "a{5}"}}}) is None


def test_where_nothing_may_take_long_costly_schemas_are_refused():
    assert "patterns" in (wrong_at_once(MANY) or "")
    assert wrong_at_once({"description": "x" * schema_cost.LARGEST_AT_ONCE}) is not None
    assert wrong_at_once({"type": "objekt"}) is not None
    assert wrong_at_once({"type": "object", "properties": {"mail": {"pattern": r"^\\S+@\\S+$"}}}) is None
    assert problems_at_once({"type": "string"}, "x") == []
    assert problems_at_once({"type": "string"}, 1) == ['1 is not of type "string"']
    assert problems_at_once(HOSTILE, "ab" * 5000) == ["the schema is too costly for a value of 10002 bytes"]
    assert problems_at_once({"items": {"type": "string"}}, [1] * 10_000) == [
        "it does not fit, and is too large to say where"
    ]


@pytest.mark.parametrize(
    ("pattern", "least", "most"),
    [
        ("(?:a[ab]{3000}c|b[ab]{3000}d)", 6000, schema_cost.MOST_STATES + 1),
        ("((a{10}){10}){10}", 1000, 2000),
        ("[ab]{9000}", 9000, schema_cost.MOST_STATES + 1),
        ("(?i)[a-z]{3000}", 3000, schema_cost.MOST_STATES + 1),
        (r"^\d{4}-\d{2}-\d{2}$", 10, 200),
        ("^[a-z]{1,64}$", 64, 1000),
        ("(((", 1, schema_cost.MOST_STATES + 1),
        ("a{999999999}", schema_cost.MOST_STATES, schema_cost.MOST_STATES + 1),
    ],
)
def test_the_states_of_a_pattern_are_estimated(pattern, least, most):
    assert least <= schema_cost.pattern_states(pattern) <= most


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"items": {"unevaluatedProperties": False, "anyOf": [{"properties": {"a": True}}] * 10}}, [{"a": 1}] * 9000),
        ({"items": {"dependentRequired": {f"p{n}": ["x"] for n in range(300)}}}, [{"a": 1}] * 9000),
        ({"items": {"properties": {"a": {"multipleOf": 0.01}}}}, [{"a": 1}] * 9000),
        ({"uniqueItems": True}, [{"a": [n]} for n in range(6000)]),
        ({"items": {"enum": [{"a": -n} for n in range(1, 900)]}}, [{"a": -899}] * 7000),
        ({"items": {"oneOf": [{"type": "object"}] + [{"required": [f"b{n}"]} for n in range(400)]}}, [{}] * 20_000),
        ({"items": {"propertyNames": {"pattern": "^(a|b)*a(a|b){12}$"}}}, [{"ab" * 30 + "a" * 13: 1}] * 800),
        ({"items": HOSTILE}, ["ab" * 2000] * 15),
        (of({"properties": {"a": {"$ref": "#/$defs/Tree"}}, "uniqueItems": True}), [{"a": {}}] * 9000),
    ],
)  # fmt: skip
def test_no_check_that_is_done_at_once_takes_long(schema, value):
    """Values are cut down to what the estimate allows; CPU time, far above what is wanted for a busy machine."""
    checker = Checker(schema)
    while len(json.dumps(value)) * checker.weight > schema_cost.BUDGET and value:
        value = value[: len(value) // 2]
    began = time.thread_time()
    checker.fits(value)
    assert time.thread_time() - began < 0.2
