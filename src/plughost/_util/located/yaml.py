"""Reads YAML files as documents that know the line of every key and item.

Only what a data file needs is taken: mappings with text as keys, lists and plain values. Anchors and
aliases (a few lines of them grow without end), tags, a key that comes twice and a second document are
problems. The parser hands over events and never recurses; depth and number are counted here.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from plughost._util.located.document import INTEGERS, Document, Field, LocatedProblem, read_authors_text
from plughost.errors import InvalidConfig

LARGEST = 64 << 10
DEEPEST = 64
MOST_VALUES = 5_000
"""Keys and values. Reading so many takes about 50 ms; without libyaml, a few times as long."""
LONGEST_NUMBER = 100
"""Characters of a number. The time to read one such as 1:59:59 grows with their square."""

_PREFIX = "tag:yaml.org,2002:"
_PLAIN = ("int", "float", "bool", "null")


def load_yaml(path: Path) -> Document:
    """Read a YAML file that came with a plugin, in a folder given by its real path; one that cannot be read
    or parsed is one located problem."""
    import yaml

    text = read_authors_text(path, LARGEST)
    reader = _Reader()
    try:
        data = reader.document(yaml.parse(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)))
    except yaml.MarkedYAMLError as error:
        place = error.problem_mark or error.context_mark
        message = " ".join(part for part in (error.context, error.problem) if part) or "not YAML"
        raise InvalidConfig(
            [LocatedProblem(str(path), place.line + 1 if place else 0, "", message)]
        ) from error
    except yaml.YAMLError as error:  # a character that may not be in it
        raise InvalidConfig([LocatedProblem(str(path), 0, "", f"not YAML: {error}")]) from error
    except _TooMuch as error:
        raise InvalidConfig([LocatedProblem(str(path), error.line, "", error.message)]) from error
    if not isinstance(data, dict):
        raise InvalidConfig([LocatedProblem(str(path), 0, "", "expected a mapping such as `name: value`")])
    document = Document(str(path), data, reader.lines)
    for field, line, message in reader.wrong:
        document.problem(field, message, line)
    return document


class _TooMuch(Exception):
    def __init__(self, line: int, message: str) -> None:
        super().__init__(message)
        self.line = line
        self.message = message


class _Reader:
    """Builds values from parser events, and records the line and the problems of each."""

    def __init__(self) -> None:
        import yaml

        self._loader = yaml.SafeLoader("")
        self.lines: dict[Field, int] = {}
        self.wrong: list[tuple[Field, int, str]] = []
        self._values = 0

    def document(self, events: Iterator[Any]) -> Any:
        import yaml

        data: Any = None
        documents = 0
        for event in events:
            if isinstance(event, yaml.DocumentStartEvent):
                documents += 1
                if documents > 1:
                    raise _TooMuch(event.start_mark.line + 1, "a second YAML document; expected only one")
            elif isinstance(event, yaml.NodeEvent):
                data = self._value(event, events, ())
        return data

    def _value(self, event: Any, events: Iterator[Any], field: Field) -> Any:
        import yaml

        self._count(event, field)
        if isinstance(event, yaml.MappingStartEvent):
            return self._mapping(events, field)
        if isinstance(event, yaml.SequenceStartEvent):
            return self._sequence(events, field)
        if isinstance(event, yaml.AliasEvent):
            self._blame(field, event, "YAML aliases are not accepted; write the value out")
            return None
        return self._scalar(event, field)

    def _count(self, event: Any, field: Field) -> None:
        import yaml

        self._values += 1
        line = event.start_mark.line + 1
        if self._values > MOST_VALUES:
            raise _TooMuch(line, f"more than {MOST_VALUES} values")
        if len(field) > DEEPEST:
            raise _TooMuch(line, f"nested more than {DEEPEST} levels deep")
        if not isinstance(event, yaml.AliasEvent):
            if event.anchor is not None:
                self._blame(field, event, f"YAML anchors are not accepted: &{event.anchor}")
            if event.tag not in (None, "!"):
                self._blame(field, event, f"the YAML tag {event.tag} is not accepted; write a plain value")

    def _mapping(self, events: Iterator[Any], field: Field) -> dict[str, Any]:
        import yaml

        found: dict[str, Any] = {}
        while not isinstance(event := next(events), yaml.MappingEndEvent):
            key = self._value(event, events, (*field, "?"))
            value_event = next(events)
            place = (*field, key if isinstance(key, str) else _shown(key))
            if not isinstance(key, str):
                self._blame(place, event, f"the key {_shown(key)} is not text; put it in quotes")
                key = _shown(key)
            if key in found:
                self._blame(place, event, f"duplicate key; first used in line {self.lines[place]}")
            else:
                self.lines[place] = event.start_mark.line + 1
            value = self._value(value_event, events, place)
            found.setdefault(key, value)
        return found

    def _sequence(self, events: Iterator[Any], field: Field) -> list[Any]:
        import yaml

        found: list[Any] = []
        while not isinstance(event := next(events), yaml.SequenceEndEvent):
            place = (*field, len(found))
            self.lines[place] = event.start_mark.line + 1
            found.append(self._value(event, events, place))
        return found

    def _scalar(self, event: Any, field: Field) -> Any:
        import yaml

        if not event.implicit[0]:  # quoted, or in a block: text
            return event.value
        kind = self._loader.resolve(yaml.ScalarNode, event.value, (True, False)).removeprefix(_PREFIX)
        if kind not in _PLAIN:  # a date stays what was written
            return event.value
        try:
            if len(event.value) > LONGEST_NUMBER:
                raise ValueError
            value = self._loader.construct_object(yaml.ScalarNode(_PREFIX + kind, event.value))
        except (ValueError, KeyError, OverflowError):  # a number of thousands of digits, for one
            self._blame(field, event, f"a value that cannot be read: {event.value[:40]!r}")
            return None
        if isinstance(value, int) and value not in INTEGERS:
            self._blame(field, event, f"the integer {event.value[:40]} has more than 64 bits")
            return None
        if isinstance(value, float) and not math.isfinite(value):
            self._blame(field, event, f"{event.value} is not a JSON number")
            return None
        return value

    def _blame(self, field: Field, event: Any, message: str) -> None:
        self.wrong.append((field, event.start_mark.line + 1, message))


def _shown(key: Any) -> str:
    return f"{key!r:.40}"
