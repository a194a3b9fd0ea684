"""Cost estimates for JSON Schemas: whether compiling one, or checking a value, is quick enough to do at once.

The checker holds the interpreter while it works and cannot be interrupted, so the decision falls before it
starts. The unit is what one keyword costs for one byte of a value's JSON, some 5 ns. The weight of a schema
is an upper bound of such units per byte: the keywords that look at the same part of a value are added up,
while of schemas for different parts (`properties`, `items`) only the heaviest counts. Keywords that take
longer weigh more: a pattern as many units as its automaton has states, since each may be active at each
character.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from msgspec import json

from plughost._util.json_schema.references import resolve

BUDGET = 1 << 20
"""Units of a check that is done at once: some 5 ms."""
LARGEST_AT_ONCE = 64 << 10
"""Bytes of a payload that is decoded and searched at once, or of a schema that is compiled at once."""
HEAVIEST = 1 << 20
MOST_STATES = 1 << 15
"""States of the largest pattern that the checker compiles (its limit is 1 MiB of memory)."""
LONGEST_PATTERNS = 4 << 10
"""Characters of all patterns of a schema that is compiled at once: only to count the states of a longer one
takes long, some 2 µs for each character."""
SLOW_KEYWORD = 50
UNIQUE = 1000
"""Units of `uniqueItems`: integers of more than 64 bits are compared each with each."""
AGAIN = 64
"""Factor for a schema that holds itself: what compares whole values does so on each level."""
UNEVALUATED = 4
TOLD = 64
"""Factor for telling what is wrong with a value instead of whether anything is."""
REPEATED = 4
"""Bytes of a schema that add one to that factor: each problem repeats its keyword, and the way to it."""

_NOTES = {"$schema", "$id", "$comment", "$anchor", "$defs", "definitions", "title", "description", "default",
          "examples", "deprecated", "readOnly", "writeOnly"}  # fmt: skip
_SLOW = {"format", "contentMediaType", "contentEncoding", "contentSchema"}
_LISTS = {"allOf", "anyOf", "oneOf"}
_SAME_PART = {"not", "if", "then", "else", "contains", "propertyNames", "unevaluatedItems",
              "unevaluatedProperties"}  # fmt: skip
_INSIDE = {"items", "additionalItems", "additionalProperties"}
CLASS = 8
"""States of a class of characters, at least; and a factor for a pattern in any case: all are classes then."""
PROPERTY = 1 << 10
"""States of a class that is a Unicode property, such as `\\p{L}`."""
UNKNOWN = MOST_STATES + 1
"""For a pattern whose states are not known: it is never compiled at once."""
FRACTION = 1000
"""Units of a `multipleOf` that is not an integer: it is checked with exact fractions."""
LARGEST_FACTOR = 1 << 53
_FRACTIONS = (1e-15, 1e15)
"""Others take long: the digits of the fraction grow with the exponent."""

_PROPERTY = r"\\[pP](?:\{[A-Za-z0-9_=]+\}|[A-Z])"
_ESCAPED = r"\\(?:[dDwWsSbBtnrfv]|x[0-9A-Fa-f]{2}|u[0-9A-Fa-f]{4}|[!-/:-@\[-`{-~])"
_TOKEN = re.compile(
    rf"""(?P<flags>\(\?[is]+\))|(?P<open>\((?:\?(?:[is]*:|P?<[A-Za-z_][A-Za-z0-9_]*>)|(?!\?)))|(?P<close>\))
    |\{{(?P<least>0|[1-9][0-9]{{0,8}})(?:,(?P<most>0|[1-9][0-9]{{0,8}})?)?(?P<times>\}})|(?P<repeat>[*+?])
    |(?P<property>{_PROPERTY})
    |(?P<class>\[\^?(?:[^\[\]\\&~-]|&(?!&)|~(?!~)|-(?!-)|{_ESCAPED}|{_PROPERTY})+\])
    |(?P<many>{_ESCAPED}|\.|[^\x00-\x7f])|(?P<one>[^\\\[({{])""",
    re.VERBOSE,
)
"""The patterns whose states are known: any other escape, flag, count or class is not matched."""
_ANY_CASE = re.compile(r"\(\?s*i")
_TRANSLATED = re.compile(r"\\[dDwWsSc]")
_WIDE = re.compile(r"\[\^|\\[SDWux]|[^\x00-\x7f]")
"""In a class or escape: it may stand for much of Unicode."""


@lru_cache(maxsize=256)
def pattern_states(pattern: str) -> int:
    """An upper bound, roughly, of the states of a pattern's automaton: what is repeated counts as often."""
    any_case = _ANY_CASE.search(pattern) is not None
    groups: list[int] = []
    states = last = position = 0  # of the group so far; of the thing that a repetition would repeat
    while position < len(pattern):
        if (token := _TOKEN.match(pattern, position)) is None:
            return UNKNOWN
        position, kind = token.end(), token.lastgroup
        if kind == "open":
            groups.append(states)
            states = last = 0
        elif kind == "close":
            if not groups:
                return UNKNOWN
            last = states + 1
            states = groups.pop() + last
        elif kind == "times":
            more = last * (max(int(token["most"] or token["least"]), 1) - 1)
            states, last = states + more, last + more
        elif kind == "repeat":
            states, last = states + 1, last + 1  # and another repetition after it repeats the whole
        else:
            last = _states_of(kind, token[0], any_case)
            states += last
        if states > MOST_STATES:
            return MOST_STATES
    if groups:
        return UNKNOWN
    return min(states, MOST_STATES) + 1


def _states_of(kind: str | None, token: str, any_case: bool) -> int:
    """States of what stands for one character."""
    states = CLASS if kind == "many" else max(CLASS, len(token)) if kind == "class" else 1
    states += PROPERTY * len(re.findall(_PROPERTY, token))
    if not any_case:
        return states
    # To find the other case of each character of a large class takes a millisecond.
    return CLASS * states + (PROPERTY if _WIDE.search(token) else 0)


def compile_states(schema: Any) -> int:
    """States of all patterns in a schema, wherever they stand: what compiling it costs beside its length."""
    return sum(pattern_states(pattern) + _translation(pattern) for pattern in _patterns(schema))


def _translation(pattern: str) -> int:
    """What it costs, in states, to write the pattern's escapes as ECMA has them: it is read anew for each."""
    escapes = len(_TRANSLATED.findall(pattern))
    return escapes * (len(pattern) + 60 * escapes) // 12


def too_costly(schema: Any) -> str | None:
    """Why a schema is not compiled at once; None for one that is."""
    if (size := len(json.encode(schema))) > LARGEST_AT_ONCE:
        return f"it has {size} bytes; the maximum is {LARGEST_AT_ONCE}"
    for factor in _factors(schema):
        if _factor_units(factor) == HEAVIEST:
            return (
                f"the cost of multipleOf {factor!r:.40} is unknown; use a factor of at least "
                f"{_FRACTIONS[0]:g}"
            )
    if (size := sum(map(len, _patterns(schema)))) > LONGEST_PATTERNS:
        return f"its patterns have {size} characters; the maximum is {LONGEST_PATTERNS}"
    for pattern in _patterns(schema):
        if pattern_states(pattern) == UNKNOWN:
            return (
                f"the cost of the pattern {pattern[:80]!r} is unknown; use common regular-expression syntax"
            )
    if (states := compile_states(schema)) > MOST_STATES:
        return f"its patterns have about {states} states; the maximum is {MOST_STATES}"
    return None


def _patterns(node: Any) -> Iterator[str]:
    if isinstance(node, dict):
        for keyword, value in node.items():
            if keyword == "pattern" and isinstance(value, str):
                yield value
            elif keyword == "patternProperties" and isinstance(value, dict):
                yield from value
            yield from _patterns(value)
    elif isinstance(node, list):
        for each in node:
            yield from _patterns(each)


def _factors(node: Any) -> Iterator[Any]:
    if isinstance(node, dict):
        if "multipleOf" in node and isinstance(node["multipleOf"], (int, float)):
            yield node["multipleOf"]
        node = [*node.values()]
    if isinstance(node, list):
        for each in node:
            yield from _factors(each)


def _factor_units(factor: Any) -> int:
    if isinstance(factor, int):
        return SLOW_KEYWORD if factor <= LARGEST_FACTOR else HEAVIEST
    least, most = _FRACTIONS
    return FRACTION if isinstance(factor, float) and least <= factor <= most else HEAVIEST


def weight(schema: Any, *, holds_itself: bool = False) -> int:
    """Units per byte of a value, at most, of a schema whose references have been checked to be few."""
    units = _Weigher(schema).weigh(schema)
    return min(units * AGAIN if holds_itself else units, HEAVIEST)


def told_weight(schema: Any, units: int) -> int:
    """Units per byte of a value of telling what is wrong with it, by a schema that weighs `units`."""
    return units * (TOLD + (len(json.encode(schema)) - _note_bytes(schema)) // REPEATED)


def _note_bytes(node: Any) -> int:
    """Characters of a schema's notes, which no problem repeats. Others than texts count as the rest."""
    if isinstance(node, list):
        return sum(map(_note_bytes, node))
    if not isinstance(node, dict):
        return 0
    return sum(
        len(value) if isinstance(value, str) and keyword in _NOTES else _note_bytes(value)
        for keyword, value in node.items()
        if keyword not in ("const", "enum")
    )


class _Weigher:
    def __init__(self, root: Any) -> None:
        self._root = root
        self._known: dict[str, int] = {}

    def weigh(self, node: Any) -> int:
        if not isinstance(node, dict):
            return 1
        units, inside = 1, 0
        for keyword, value in node.items():
            if keyword in _NOTES:
                continue
            if keyword == "properties" and isinstance(value, dict):
                units += 1
                inside = max(inside, *map(self.weigh, value.values()), 0)
            elif keyword in _INSIDE and not isinstance(value, list):
                inside = max(inside, self.weigh(value))
            elif keyword in ("prefixItems", "items") and isinstance(value, list):
                inside = max(inside, *map(self.weigh, value), 0)
            else:
                units += self._in_place(keyword, value)
        units += inside
        if "unevaluatedItems" in node or "unevaluatedProperties" in node:
            units *= UNEVALUATED
        return min(units, HEAVIEST)

    def _in_place(self, keyword: str, value: Any) -> int:
        """Units of a keyword that is about the same part of a value as the schema that it stands in."""
        if keyword == "$ref" and isinstance(value, str):
            return self._referred(value)
        if keyword == "pattern" and isinstance(value, str):
            return pattern_states(value)
        if keyword == "multipleOf":
            return _factor_units(value)
        if keyword == "patternProperties" and isinstance(value, dict):
            return sum(pattern_states(name) + self.weigh(inner) for name, inner in value.items())
        if keyword in _LISTS and isinstance(value, list):
            return sum(map(self.weigh, value))
        if keyword in ("dependentSchemas", "dependencies") and isinstance(value, dict):
            return sum(1 + self.weigh(inner) + _size(inner) for inner in value.values())
        if keyword in _SAME_PART:
            return self.weigh(value)
        if keyword == "uniqueItems":
            return UNIQUE
        return SLOW_KEYWORD if keyword in _SLOW else _size(value)

    def _referred(self, reference: str) -> int:
        if reference not in self._known:
            self._known[reference] = 1  # one that leads back here is about another part of the value
            self._known[reference] = self.weigh(resolve(self._root, reference))
        return self._known[reference]


def _size(value: Any) -> int:
    """How many values there are in one, itself included."""
    inside = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return 1 + sum(map(_size, inside))
