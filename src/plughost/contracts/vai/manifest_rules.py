"""The validation rules of vai-plugin.toml beyond the types of its fields. Each field is checked on its own,
so that one problem does not hide another."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from plughost._util.located.document import Document, Field
from plughost._util.semver import is_semantic

Holds = Callable[[str], bool]
"""Whether a package has a file at a normalised path: `bin/plugin`, never `./bin/plugin`."""

PROGRAMS = "bin/"
MOST_EXPORTS = 100
MOST_SLOTS = 50
MOST_SUBSCRIPTIONS = 100
MOST_WORDS = 100
LONGEST_WORD = 4096
LONGEST_PROSE = 4000
LONGEST_PATH = 255
LONGEST_VERSION = 128

_PART = r"[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*"
_PACKAGE = re.compile(rf"(?=[^/]{{1,64}}/[^/]{{1,64}}\Z){_PART}/{_PART}")
_ID = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,63}")
_EVENT = re.compile(r"(?=.{1,128}\Z)[a-z][a-z0-9_]*(?:\.[a-z][a-z0-9_]*)+")

_ITEMS = "1 to 64 letters, digits, _ and -, starting with a letter"
NOT_FOR_RESULTS = "chains:write"
"""The scope that only a harness may ask for; the others return results, and the host writes to the chain."""


def inside(path: str) -> str | None:
    """The normalised path in a package; None for an invalid path, or one that leads out of the package."""
    parts = path.split("/")
    if path.startswith("/") or ".." in parts or "\\" in path or ":" in path or not path.isprintable():
        return None
    normal = posixpath.normpath(path)
    usable = normal != "." and parts[-1] not in ("", ".") and len(normal) <= LONGEST_PATH
    return normal if usable else None


def is_package_id(text: str) -> bool:
    """Whether `text` is a package id, `publisher/name`, as manifests write it."""
    return _PACKAGE.fullmatch(text) is not None


def check(document: Document, kinds: Sequence[str], holds: Holds | None) -> None:
    """Records every problem in the document that the types of the fields do not show."""
    ManifestRules(document, kinds, holds).package(document.data)


class ManifestRules:
    """The rules for one manifest document; problems are recorded in the document."""

    def __init__(self, document: Document, kinds: Sequence[str], holds: Holds | None) -> None:
        self._document = document
        self._kinds = kinds
        self._holds = holds

    def package(self, table: Mapping[str, Any]) -> None:
        """Checks the whole manifest."""
        expected = "publisher/name, each 1 to 64 characters of a-z and 0-9 with . _ or - between them"
        self._text(table, "package_id", (), is_package_id, expected)
        self._text(table, "version", (), _is_version, "a semantic version such as 1.0.0")
        self._prose(table, (), required="name")
        for key in ("license", "source"):
            self._text(
                table, key, (), lambda t: len(t) <= LONGEST_PROSE and t.isprintable(), "text on one line"
            )
        runtime = table.get("runtime")
        if isinstance(runtime, dict):
            self._runtime(runtime)
        exports = table.get("exports")
        if isinstance(exports, list):
            self._count(("exports",), exports, 1, MOST_EXPORTS)
            first: dict[str, int] = {}
            for number, export in enumerate(exports):
                if isinstance(export, dict):
                    self._export(export, ("exports", number))
                    if isinstance(name := export.get("id"), str) and first.setdefault(name, number) != number:
                        first_at = f"exports[{first[name]}]"
                        self._document.problem(
                            ("exports", number, "id"), f"{name!r:.200} is already the id of {first_at}"
                        )

    def _runtime(self, table: Mapping[str, Any]) -> None:
        field: Field = ("runtime", "entrypoint")
        words = table.get("entrypoint")
        if isinstance(words, list):
            self._count(field, words, 1, MOST_WORDS)
            for number, word in enumerate(words):
                if not isinstance(word, str):
                    continue
                if number == 0:
                    self._path(word, (*field, 0))
                    if not (inside(word) or PROGRAMS).startswith(PROGRAMS):
                        self._expect((*field, 0), f"a program in {PROGRAMS}, got {word!r:.200}")
                elif "\0" in word or len(word) > LONGEST_WORD:
                    self._expect((*field, number), f"text of at most {LONGEST_WORD} characters, without NUL")
        for key in ("os", "arch"):
            if isinstance(named := table.get(key), list):
                self._count(("runtime", key), named, 1, 20)
                self._once(("runtime", key), named)

    def _export(self, table: Mapping[str, Any], field: Field) -> None:
        self._text(table, "id", field, lambda text: bool(_ID.fullmatch(text)), _ITEMS)
        self._prose(table, field, required="display_name")
        self._file(table, "config_schema", field)
        kind = table.get("kind")
        if isinstance(kind, str) and kind in self._kinds:
            self._kind_table(table, field, kind)
        for section, check_section in (
            ("permissions", self._permissions),
            ("tool", self._tool),
            ("hook", self._hook),
        ):
            if isinstance(table.get(section), dict):
                check_section(table[section], (*field, section), kind)
        if isinstance(compactor := table.get("compactor"), dict):
            self._text(compactor, "target_context", (*field, "compactor"), _is_id, _ITEMS)
        if isinstance(harness := table.get("harness"), dict):
            self._once((*field, "harness", "supports"), harness.get("supports"))

    def _kind_table(self, table: Mapping[str, Any], field: Field, kind: str) -> None:
        if kind not in table:
            self._document.problem(field, f"`{kind}` is missing; expected the table [exports.{kind}]")
        for other in self._kinds:
            if other != kind and other in table:
                self._document.problem((*field, other), f"expected no such table: this export is a {kind}")

    def _permissions(self, table: Mapping[str, Any], field: Field, kind: Any) -> None:
        scopes, slots = table.get("gateway_api_scopes"), table.get("secret_slots")
        self._once((*field, "gateway_api_scopes"), scopes)
        for number, scope in enumerate(scopes if isinstance(scopes, list) else ()):
            if scope == NOT_FOR_RESULTS and kind in ("tool", "hook", "compactor"):
                self._document.problem(
                    (*field, "gateway_api_scopes", number),
                    f"a {kind} cannot ask for {scope}: only the host writes the results of a {kind} to a "
                    "chain",
                )
        if isinstance(slots, list):
            self._count((*field, "secret_slots"), slots, 0, MOST_SLOTS)
            self._once((*field, "secret_slots"), slots)
            self._each(slots, (*field, "secret_slots"), _is_id, _ITEMS)

    def _tool(self, table: Mapping[str, Any], field: Field, kind: Any) -> None:
        self._file(table, "input_schema", field)
        self._file(table, "output_schema", field)

    def _hook(self, table: Mapping[str, Any], field: Field, kind: Any) -> None:
        if isinstance(events := table.get("subscribes_to"), list):
            self._count((*field, "subscribes_to"), events, 1, MOST_SUBSCRIPTIONS)
            self._once((*field, "subscribes_to"), events)
            event_types = "an event type such as run.completed"
            self._each(
                events, (*field, "subscribes_to"), lambda text: bool(_EVENT.fullmatch(text)), event_types
            )

    # The building blocks of the rules

    def _expect(self, field: Field, expected: str) -> None:
        self._document.problem(field, f"expected {expected}")

    def _text(
        self, table: Mapping[str, Any], key: str, field: Field, fits: Callable[[str], bool], expected: str
    ) -> None:
        if isinstance(text := table.get(key), str) and not fits(text):
            self._expect((*field, key), f"{expected}, got {text!r:.200}")

    def _each(self, items: Iterable[Any], field: Field, fits: Callable[[str], bool], expected: str) -> None:
        for number, item in enumerate(items):
            if isinstance(item, str) and not fits(item):
                self._expect((*field, number), f"{expected}, got {item!r:.200}")

    def _prose(self, table: Mapping[str, Any], field: Field, *, required: str) -> None:
        """Checks the display name, and a description that may have several lines."""
        one_line = "1 to 200 characters on one line"
        self._text(table, required, field, lambda t: 1 <= len(t) <= 200 and t.isprintable(), one_line)
        lines = f"at most {LONGEST_PROSE} characters that can be printed"
        self._text(table, "description", field, _is_prose, lines)

    def _count(self, field: Field, items: list[Any], least: int, most: int) -> None:
        if not least <= len(items) <= most:
            wanted = f"{least} to {most}" if least else f"at most {most}"
            self._expect(field, f"{wanted} items, got {len(items)}")

    def _once(self, field: Field, items: Any) -> None:
        seen: set[str] = set()
        for number, item in enumerate(items if isinstance(items, list) else ()):
            if isinstance(item, str) and item in seen:
                self._document.problem((*field, number), f"{item!r:.200} is listed twice")
            elif isinstance(item, str):
                seen.add(item)

    def _file(self, table: Mapping[str, Any], key: str, field: Field) -> None:
        if isinstance(path := table.get(key), str):
            self._path(path, (*field, key))

    def _path(self, path: str, field: Field) -> None:
        normal = inside(path)
        if normal is None:
            self._expect(
                field, f"the relative path of a file in the package, with / as separator, got {path!r:.200}"
            )
        elif self._holds is not None and not self._holds(normal):
            self._document.problem(field, f"the package has no file {normal!r}")


def _is_version(text: str) -> bool:
    return len(text) <= LONGEST_VERSION and is_semantic(text)


def _is_id(text: str) -> bool:
    return bool(_ID.fullmatch(text))


def _is_prose(text: str) -> bool:
    return len(text) <= LONGEST_PROSE and text.replace("\n", "").replace("\t", "").isprintable()
