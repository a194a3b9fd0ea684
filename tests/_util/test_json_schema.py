"""Schemas of strangers: what is small stays quick to check, and the rest is refused."""

from __future__ import annotations

import functools
import json
import time
from typing import Any

import pytest

from plughost._util.json_schema import cost
from plughost._util.json_schema.validation import (
    Checker,
    problems_in_worker,
    quick_problems,
    quick_schema_problem,
    schema_problem,
)
from plughost._util.text import TruncatedText
from tests.support.cpu_time import within_cpu_seconds

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
        TruncatedText("it does not match the schema; it is nested too deeply to report where")
    ]
    assert Checker({"type": "string"}).problems(value) == Checker(of(tree)).problems(value)
    assert time.perf_counter() - began < 10


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        (of({"$ref": "#/$defs/Tree"}), "refers back to itself"),
        (of({"allOf": [{"$ref": "#/$defs/Tree"}]}), "refers back to itself"),
        (of({"not": {"$ref": "#/$defs/Other"}}, Other={"anyOf": [{"$ref": "#/$defs/Tree"}]}), "refers back to itself"),
        (of({"dependentSchemas": {"items": {"$ref": "#/$defs/Tree"}}}), "refers back to itself"),
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
    assert why in (schema_problem(schema) or "")


def doubling(levels: int) -> dict[str, Any]:
    """The definitions of `levels` references, each to the next one twice."""
    return {f"d{n}": {"allOf": [{"$ref": f"#/definitions/d{n + 1}"}] * 2} for n in range(levels)} | {
        f"d{levels}": {}
    }


def another_resource(levels: int = 60, **words: Any) -> dict[str, Any]:
    """The root's definitions are empty; those of the inner schema take a doubling time for each level."""
    inner = {**words, "definitions": doubling(levels), "allOf": [{"$ref": "#/definitions/d0"}]}
    return {"definitions": {name: {} for name in doubling(levels)}, "allOf": [inner]}


DRAFT_4 = "http://json-schema.org/draft-04/schema#"
DIALECT = "https://json-schema.org/draft/2020-12/schema"


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        (another_resource(**{"$schema": DRAFT_4, "id": "http://x.example/"}), "$schema is not accepted inside"),
        (another_resource(id="http://x.example/"), "id is not accepted inside"),
        (another_resource(**{"$id": "http://x.example/"}), "$id is not accepted inside"),
        ({"properties": {"deep": another_resource(**{"$schema": DRAFT_4, "id": "http://x.example/"})}}, "$schema is not"),
        ({"$schema": DRAFT_4}, "expected https://json-schema.org/draft/2020-12/schema"),
        ({"$schema": 5}, "expected https://json-schema.org/draft/2020-12/schema"),
        ({"$id": 5}, "$id: expected a string"),
        ({"items": {"$schema": DIALECT}}, "$schema is not accepted inside"),
        ({"$defs": {"a": {"$id": "http://x.example/", "b": {}}}, "$ref": "#/$defs/a/b"}, "$id is not accepted"),
        ({"x-more": {"a": {"$id": "http://x.example/"}}}, "$id is not accepted"),
        ({"$anchor": "a"}, "$anchor is not"),
        ({"items": {"$dynamicAnchor": "a"}}, "$dynamicAnchor is not"),
        ({"items": {"$recursiveAnchor": True}}, "$recursiveAnchor is not"),
        ({"$recursiveRef": "#"}, "$recursiveRef is not accepted; use $ref"),
        ({"$defs": {"a b": {}}, "$ref": "#/$defs/a b"}, "'#/$defs/a b' is not accepted"),
        ({"$defs": {"~2": {}}, "$ref": "#/$defs/~2"}, "'#/$defs/~2' is not accepted"),
        ({"$defs": {"": {"": {}}}, "$ref": "#/$defs//"}, "is not accepted"),
        ({"$defs": {"a#b": {}}, "$ref": "#/$defs/a#b"}, "is not accepted"),
        ({"$ref": "#"}, "can refer only to itself"),
        ({"$ref": ""}, "can refer only to itself"),
        (of({"dependencies": {"items": {"$ref": "#/$defs/Tree"}}}), "refers back to itself"),
    ],
)  # fmt: skip
def test_a_reference_that_could_mean_two_things_is_refused(schema, why):
    assert why in (quick_schema_problem(schema) or "")
    with pytest.raises(ValueError, match=r"\w"):
        Checker(schema)


@pytest.mark.parametrize(
    ("schema", "fits", "fits_not"),
    [
        ({"properties": {"id": {"type": "string"}, "$schema": True, "$id": {}, "$anchor": False}}, {"id": "a"}, {"id": 1}),
        ({"const": {"id": "a"}, "default": {"id": "a"}, "examples": [{"id": "a"}]}, {"id": "a"}, {"id": "b"}),
        ({"enum": [{"id": "a"}]}, {"id": "a"}, {"id": "b"}),
        ({"$defs": {"id": {"type": "string"}}, "$ref": "#/$defs/id"}, "a", 1),
        ({"$defs": {"a/b": {"~1": {"type": "string"}}}, "$ref": "#/$defs/a~1b/~01"}, "a", 1),
        ({"$defs": {"a": {"type": "string"}}, "$ref": "#/$defs/a", "maxLength": 1}, "a", "ab"),
        ({"$schema": DIALECT, "$id": "https://x.example/a", "type": "string"}, "a", 1),
        ({"$id": "https://json-schema.org/draft/2020-12/meta/core", "$defs": {"anchorString": {"type": "integer"}},
          "$ref": "#/$defs/anchorString"}, 1, "a"),
    ],
)  # fmt: skip
def test_names_and_data_may_look_like_such_keywords(schema, fits, fits_not):
    checker = Checker(schema)
    assert (checker.fits(fits), checker.fits(fits_not)) == (True, False)


HOSTILE = {"pattern": "(?:a[ab]{3000}c|b[ab]{3000}d)"}
MANY = {"properties": {f"p{number}": {"pattern": f"{number}[ab]{{3000}}"} for number in range(1000)}}


def test_a_value_that_takes_minutes_is_given_up_in_a_process_of_its_own():
    began = time.monotonic()
    assert problems_in_worker(HOSTILE, "ab" * 500_000, seconds=1) == [
        "checking it takes longer than 1 seconds"
    ]
    assert time.monotonic() - began < 15
    assert problems_in_worker(HOSTILE, "ab" * 100, seconds=30)[0].startswith('"abab')
    assert problems_in_worker({"type": "string"}, "x", seconds=30) == []


def test_a_schema_that_takes_long_to_compile_is_compiled_in_a_process_of_its_own():
    assert schema_problem(MANY, seconds=0.001) == "compiling it takes longer than 0.001 seconds"
    assert schema_problem({**MANY, "type": "objekt"}, seconds=60) is not None
    assert schema_problem({"properties": {"a": {"pattern": "a{5}"}}}) is None


def test_where_nothing_may_take_long_costly_schemas_are_refused():
    assert "patterns" in (quick_schema_problem(MANY) or "")
    assert quick_schema_problem({"description": "x" * cost.LARGEST_AT_ONCE}) is not None
    assert quick_schema_problem({"type": "objekt"}) is not None
    assert (
        quick_schema_problem({"type": "object", "properties": {"mail": {"pattern": r"^\\S+@\\S+$"}}}) is None
    )
    assert quick_problems({"type": "string"}, "x") == []
    assert quick_problems({"type": "string"}, 1) == ['1 is not of type "string"']
    assert quick_problems(HOSTILE, "ab" * 5000) == ["the schema is too costly for a value of 10002 bytes"]
    assert quick_problems({"items": {"type": "string"}}, [1] * 10_000) == [
        "it does not match the schema; it is too large to report where"
    ]


@pytest.mark.parametrize(
    ("pattern", "least", "most"),
    [
        ("(?:a[ab]{3000}c|b[ab]{3000}d)", 6000, cost.MOST_STATES + 1),
        ("((a{10}){10}){10}", 1000, 2000),
        ("[ab]{9000}", 9000, cost.MOST_STATES + 1),
        ("(?i)[a-z]{3000}", 3000, cost.MOST_STATES + 1),
        (r"^\d{4}-\d{2}-\d{2}$", 10, 200),
        ("^[a-z]{1,64}$", 64, 1000),
        ("(((", 1, cost.MOST_STATES + 1),
        ("a{999999999}", cost.MOST_STATES, cost.MOST_STATES + 1),
        ("(?:[ab]{40})?{40}[^ab]", 12_000, 20_000),
        (r"(?i)^[a-z0-9._%+-]+@[a-z0-9.-]+\.[a-z]{2,63}$", 100, 10_000),
        (r"^[!#$%&'*/=?^`{|}~-]{1,64}$", 64, 3000),
        (r"^(?P<year>[0-9]{4})|(?<x>\p{Lu})\u00e4\x41$", 1024, 3000),
    ],
)
def test_the_states_of_a_pattern_are_estimated(pattern, least, most):
    assert least <= cost.pattern_states(pattern) <= most


@pytest.mark.parametrize(
    "pattern",
    [
        "(?:[ab]?){00000000005000}[^ab]",
        "(?x)(?:[ab]?){ 5000 }[^ab]",
        "(?:[ab]?){ 5000 }[^ab]",
        "(?:[ab]?){5000 }",
        "(?:[ab]?){٥٠٠٠}",
        "(?:[ab]?){0,05000}",
        "a{1000000000}",
        "a{,5}",
        "a{",
        "(?m)^a",
        "(?U)a*",
        "(?-u:a)",
        "(?ix)a{ 5 }",
        "[a[b]]",
        "[a&&b]",
        "[]a]",
        "[a",
        r"\x{61}",
        r"\u{61}",
        r"\b{start}a",
        r"\q",
        "a\\",
        "a)",
        "(?=a)",
    ],
)
def test_a_pattern_outside_the_common_syntax_is_never_compiled_at_once(pattern):
    assert "is unknown" in (quick_schema_problem({"properties": {"a": {"pattern": pattern}}}) or "")
    assert "is unknown" in (quick_schema_problem({"patternProperties": {pattern: {}}}) or "")
    with pytest.raises(ValueError, match="is unknown"):
        quick_problems({"pattern": pattern}, "a")


@pytest.mark.parametrize("factor", [5e-324, 1e-16, 1e300, 2**60, 10**400])
def test_nor_is_a_multiple_of_an_extreme_number(factor):
    assert "multipleOf" in (quick_schema_problem({"items": {"multipleOf": factor}}) or "")
    assert quick_schema_problem({"properties": {"multipleOf": {"multipleOf": 0.01}}}) is None


@pytest.mark.parametrize(
    "pattern", [r"\s" * 1000, r"\w" * 500, r"(?i)" + r"\S" * 400, r"(?i)" + r"[^\x41]" * 200, r"\p{L}" * 100]
)
def test_a_pattern_that_is_short_but_takes_long_to_compile_is_not_compiled_at_once(pattern):
    assert "patterns have about" in (
        quick_schema_problem({"allOf": [{"pattern": pattern}, {"pattern": "a"}]}) or ""
    )


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"items": {"multipleOf": 0.01}}, [1e300] * 9000),
        ({"items": {"multipleOf": 1e-15}}, [1e300] * 9000),
        ({"items": {"pattern": "(?:[ab]{40})?{40}[^ab]"}}, ["ab" * 400] * 80),
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
    while len(json.dumps(value)) * checker.weight > cost.BUDGET and value:
        value = value[: len(value) // 2]
    within_cpu_seconds(0.2, lambda: checker.fits(value))


@pytest.mark.parametrize(
    "inner", [{"const": "x" * 60_000}, {"enum": [10**4000]}, {"required": ["y" * 60_000]}]
)
def test_problems_that_repeat_long_words_are_not_told_at_once(inner):
    schema, value = {"items": inner}, [{}] * 1000
    assert quick_problems(schema, value) == ["it does not match the schema; it is too large to report where"]
    assert quick_problems({"items": {"const": "x"}, "description": "y" * 60_000}, [1]) != []
    assert "is not" in quick_problems({"items": {"type": "string"}, "description": "y" * 9000}, [1] * 50)[0]


@pytest.mark.parametrize("pattern", ["a" * 30_000, "|" * 16_000, "[a-f]" * 3000, "a{9}" * 5000])
def test_of_long_patterns_not_even_the_states_are_counted_at_once(pattern):
    for schema in ({"pattern": pattern}, {"patternProperties": {pattern[:3000]: {}, pattern[:2500]: {}}}):
        problem = within_cpu_seconds(0.02, functools.partial(quick_schema_problem, schema))
        assert "characters" in (problem or "")


def test_unique_items_are_costly_because_large_integers_are_compared_each_with_each():
    assert Checker({"uniqueItems": True}).weight >= cost.UNIQUE
    large = [10**20 + number for number in range(2000)]
    assert quick_problems({"uniqueItems": True}, large) == [
        f"the schema is too costly for a value of {len(json.dumps(large, separators=(',', ':')))} bytes"
    ]
    assert quick_problems({"uniqueItems": True}, large[:40]) == []
