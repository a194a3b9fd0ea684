"""Validation against JSON Schemas of plugins, for their configuration, input and output.

A schema comes from the plugin, so it is an untrusted program in a small language. References lead nowhere but
into the schema itself, and all of them written out must stay small: otherwise a page of schema keeps a
checker busy for years. One may lead back to itself, as that of a tree does, where each round goes a step
down into the value, and where there is one way to go on: with two, each step would double the work.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple, NoReturn

from msgspec import json

from plughost._util.json_schema import cost
from plughost._util.json_schema.references import resolve, standalone
from plughost._util.text import TruncatedText, head
from plughost._util.worker_process import ask_once

MOST_PARTS = 5000
"""Parts of a schema with its references written out."""
LONGEST_CHAIN = 20
MOST_LEVELS = 32
"""Of a value whose problems are reported one by one, where its schema holds itself."""
MOST_ERRORS = 20
LONGEST_ERROR = 500
_STEPS = {"properties", "patternProperties", "additionalProperties", "items", "prefixItems", "contains"}
"""Whose schemas are about what is inside the value."""
_MAPS = {"properties", "patternProperties", "dependentSchemas", "dependencies"}
"""Whose keys are names and not keywords."""
_TWICE = {"unevaluatedProperties", "unevaluatedItems"}
"""Which look once more at what others have looked at."""


class LocatedProblem(NamedTuple):
    """Where a value does not match its schema, and how."""

    path: tuple[str | int, ...]
    """The names and indexes that lead to the wrong part of the value."""
    message: TruncatedText
    sentence: TruncatedText
    """The message with the place in front."""


class Measure(NamedTuple):
    """The size of a schema with its references written out."""

    parts: int
    again: int = 0
    """How many ways lead back into something that leads to itself."""


SECONDS = 10.0
"""For a check in a process of its own."""
WORKER = "plughost._util.json_schema.worker"


def schema_problem(schema: dict[str, Any], seconds: float = SECONDS) -> str | None:
    """What is wrong with a schema; None when it can be used.

    One that takes long is compiled in a process of its own, which is waited for: not for an event loop.
    """
    if cost.too_costly(schema) is None:
        return quick_schema_problem(schema)
    text = json.encode(schema)
    reply = ask_once(WORKER, {"job": "compile", "schema": len(text)}, text, seconds)
    if reply is None:
        return f"compiling it takes longer than {seconds:g} seconds"
    return reply[0].get("wrong_schema") or reply[0].get("failed")


def problems_in_worker(schema: Any, value: Any, seconds: float = SECONDS) -> list[str]:
    """The problems of a value, found in a worker process, which is waited for.

    For values that hold no secrets.
    """
    text = json.encode(schema)
    head = {"job": "check", "schema": len(text), "shown": True}
    reply = ask_once(WORKER, head, text + json.encode(value), seconds)
    if reply is None:
        return [f"checking it takes longer than {seconds:g} seconds"]
    if (why := reply[0].get("wrong_schema") or reply[0].get("failed")) is not None:
        raise ValueError(why)
    return [problem["unhidden"] for problem in reply[0]["problems"]]


def quick_problems(schema: Any, value: Any) -> list[str]:
    """The problems of a value, found at once: a check that would take long is a problem itself. Raises
    ValueError for a wrong schema."""
    if why := cost.too_costly(schema):
        raise ValueError(why)
    checker, size = Checker(schema), len(json.encode(value))
    if size * checker.weight > cost.BUDGET:
        return [f"the schema is too costly for a value of {size} bytes"]
    if checker.fits(value):
        return []
    if size * checker.told_weight > cost.BUDGET:
        return ["it does not match the schema; it is too large to report where"]
    return [problem.unhidden for problem in checker.problems(value)]


def quick_schema_problem(schema: dict[str, Any]) -> str | None:
    """What is wrong with a schema; being slow to compile is wrong, too."""
    if why := cost.too_costly(schema):
        return why
    try:
        Checker(schema)
    except ValueError as error:
        return _line(error)
    return None


class Checker:
    """A compiled schema that checks values. Raises ValueError when the schema cannot be used.

    With a `mask`, messages contain that in place of the value: for values that may be secret.
    """

    def __init__(self, schema: Any, mask: str | None = None) -> None:
        import jsonschema_rs

        schema = standalone(schema)
        self._holds_itself = _measure(schema, schema, {}, (), ()).again > 0
        patterns = jsonschema_rs.RegexOptions(size_limit=1 << 20, dfa_size_limit=1 << 20)
        try:
            self._validator = jsonschema_rs.Draft202012Validator(
                schema, retriever=_retrieve_nothing, pattern_options=patterns, mask=mask
            )
        except jsonschema_rs.ValidationError as error:
            raise ValueError(_line(error)) from error
        self.fits = self._validator.is_valid
        self.weight = cost.weight(schema, holds_itself=self._holds_itself)
        """Upper bound of what a check costs per byte of a value; see `schema_cost`."""
        self.told_weight = cost.told_weight(schema, self.weight)
        """The same of telling what is wrong."""

    def problems(self, value: Any) -> list[TruncatedText]:
        """The problems of a value: where it does not match the schema."""
        return [problem.sentence for problem in self.located(value)]

    def located(self, value: Any) -> list[LocatedProblem]:
        """The problems of a value, each with its place."""
        found: list[LocatedProblem] = []
        deep = TruncatedText("it does not match the schema; it is nested too deeply to report where")
        too_deep = [] if self.fits(value) else [LocatedProblem((), deep, deep)]
        if self._holds_itself and _is_deeper(value, MOST_LEVELS):
            return too_deep  # what does not fit is reported again at each level: quadratic work
        try:
            errors = self._validator.iter_errors(value)
        except ValueError:  # the checker's own limit, some 250 levels
            return too_deep
        for error in errors:
            place = ".".join(str(part) for part in error.instance_path)
            sentence = f"{place}: {error.message}" if place else error.message
            found.append(
                LocatedProblem(
                    tuple(error.instance_path),
                    head(error.message, LONGEST_ERROR),
                    head(sentence, LONGEST_ERROR),
                )
            )
            if len(found) == MOST_ERRORS:
                break
        return found


def _is_deeper(value: Any, levels: int) -> bool:
    inside = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return levels == 0 or any(_is_deeper(each, levels - 1) for each in inside)


def _retrieve_nothing(uri: str) -> NoReturn:
    raise ValueError("a schema can refer only to itself, as in #/$defs/name")


def _measure(
    node: Any, root: dict[str, Any], known: dict[str, Measure], open_: tuple[str, ...], here: tuple[str, ...]
) -> Measure:
    """How much `node` is, its references written out.

    `open_` are the references that led to it, `here` those of them that are about the same value.
    """
    if isinstance(node, list):
        return _sum(_measure(item, root, known, open_, here) for item in node)
    if not isinstance(node, dict):
        return Measure(1)
    found = []
    for keyword, value in node.items():
        if keyword == "$defs":
            continue  # what of it is used is found by its references
        below = () if keyword in _STEPS else here
        if keyword in _MAPS and isinstance(value, dict):
            each = [_measure(inner, root, known, open_, below) for inner in value.values()]
            # Each is about another member of the value: only one of them goes on along any one way.
            again = max((measure.again for measure in each), default=0) if keyword == "properties" else None
            found.append(_sum(each, again))
        else:
            found.append(_measure(value, root, known, open_, below))
    if isinstance(reference := node.get("$ref"), str):
        found.append(_referred(reference, root, known, open_, here))
    size = _sum(found)
    if size.again > 1 or (size.again and not _TWICE.isdisjoint(node)):
        raise ValueError("it refers back to itself in more than one way")
    return size


def _referred(
    reference: str,
    root: dict[str, Any],
    known: dict[str, Measure],
    open_: tuple[str, ...],
    here: tuple[str, ...],
) -> Measure:
    if reference in here:
        raise ValueError(f"the reference {reference!r} refers back to itself")
    if reference in open_:
        return Measure(1, 1)
    if len(open_) == LONGEST_CHAIN:
        raise ValueError(f"a chain of more than {LONGEST_CHAIN} references")
    if reference not in known:
        target = resolve(root, reference)
        known[reference] = _measure(target, root, known, (*open_, reference), (*here, reference))
    return known[reference]


def _sum(found: Iterable[Measure], again: int | None = None) -> Measure:
    each = list(found)
    parts = 1 + sum(measure.parts for measure in each)
    if parts > MOST_PARTS:
        raise ValueError(f"with its references expanded it has more than {MOST_PARTS} parts")
    return Measure(parts, sum(measure.again for measure in each) if again is None else again)


def _line(error: Exception) -> str:
    return str(getattr(error, "message", error)).splitlines()[0][:300]
