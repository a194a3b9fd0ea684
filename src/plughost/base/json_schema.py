"""JSON Schemas of plugins, for their configuration, input and output.

A schema is the plugin's, so it is a stranger's program in a small language. References lead nowhere but
into the schema itself and never in a circle, and all of them written out must stay small: otherwise a page of
schema keeps a checker busy for years.
"""

from __future__ import annotations

from typing import Any, NoReturn

MOST_PARTS = 5000
"""Parts of a schema with its references written out."""
LONGEST_CHAIN = 20
MOST_ERRORS = 20
LONGEST_ERROR = 500
_ELSEWHERE = ("$dynamicRef", "$recursiveRef")


def wrong(schema: dict[str, Any]) -> str | None:
    """What is wrong with a schema; None when it can be used."""
    try:
        Checker(schema)
    except ValueError as error:
        return _line(error)
    return None


class Checker:
    """A schema made ready for many values. ValueError when it cannot be used.

    With a `mask`, problems say that instead of the value: for values that are nobody's to be shown.
    """

    def __init__(self, schema: Any, mask: str | None = None) -> None:
        import jsonschema_rs

        _measure(schema, schema, {}, ())
        patterns = jsonschema_rs.RegexOptions(size_limit=1 << 20, dfa_size_limit=1 << 20)
        try:
            self._validator = jsonschema_rs.validator_for(
                schema, retriever=_retrieve_nothing, pattern_options=patterns, mask=mask
            )
        except jsonschema_rs.ValidationError as error:
            raise ValueError(_line(error)) from error
        self.fits = self._validator.is_valid

    def problems(self, value: Any) -> list[str]:
        """What of a value is not as the schema wants it."""
        found = []
        for error in self._validator.iter_errors(value):
            place = ".".join(str(part) for part in error.instance_path)
            found.append((f"{place}: {error.message}" if place else error.message)[:LONGEST_ERROR])
            if len(found) == MOST_ERRORS:
                break
        return found


def _retrieve_nothing(uri: str) -> NoReturn:
    raise ValueError("a schema refers to itself only, as in #/$defs/name")


def _measure(node: Any, root: dict[str, Any], known: dict[str, int], open_: tuple[str, ...]) -> int:
    """How many parts `node` has, its references written out."""
    if isinstance(node, list):
        size = 1 + sum(_measure(item, root, known, open_) for item in node)
    elif isinstance(node, dict):
        for word in _ELSEWHERE:
            if word in node:
                raise ValueError(f"{word} is not taken; use $ref")
        if "$id" in node and node is not root:
            raise ValueError("a $id inside a schema is not taken")
        size = 1 + sum(_measure(value, root, known, open_) for value in node.values())
        reference = node.get("$ref")
        if isinstance(reference, str):
            if reference in open_:
                raise ValueError(f"the reference {reference!r} leads back to itself")
            if len(open_) == LONGEST_CHAIN:
                raise ValueError(f"a chain of more than {LONGEST_CHAIN} references")
            if reference not in known:
                target = _pointed(root, reference)
                known[reference] = _measure(target, root, known, (*open_, reference))
            size += known[reference]
    else:
        return 1
    if size > MOST_PARTS:
        raise ValueError(f"with its references written out it has more than {MOST_PARTS} parts")
    return size


def _pointed(root: dict[str, Any], reference: str) -> Any:
    node: Any = root
    if not reference.startswith("#/"):
        _retrieve_nothing(reference)
    for part in reference.removeprefix("#/").split("/"):
        name = part.replace("~1", "/").replace("~0", "~")
        if not isinstance(node, dict) or name not in node:
            raise ValueError(f"the reference {reference!r} leads nowhere")
        node = node[name]
    return node


def _line(error: Exception) -> str:
    return str(getattr(error, "message", error)).splitlines()[0][:300]
