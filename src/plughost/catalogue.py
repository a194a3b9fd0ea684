"""Catalogue: everything that can be called, over all plugins and contracts.

It is made of what manifests, earlier handshakes and operators say, so that asking for it starts no plugin and
waits for none. A plugin that has failed keeps its entries. Sources of other kinds register with it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

import msgspec

from plughost._util.redaction.redactor import Redactor
from plughost._util.text import head
from plughost.clock import Clock
from plughost.events import CatalogueChanged, EventHub
from plughost.wire.method_description import MAX_METHODS, MethodDescription

MAX_NAME = 1000
"""Characters of a name; a longer one is left out."""
MAX_TEXT = 4096
"""Characters of a title or a description."""
MAX_SCHEMA = 1 << 18
"""Bytes of a JSON Schema; a larger one is left out."""


class CatalogueEntry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One thing that can be called."""

    name: str
    plugin: str
    contract: str
    kind: str = "method"
    """What it is, in the contract's own word: a method, a tool, a command …"""
    title: str = ""
    description: str = ""
    input_schema: Any = None
    """The JSON Schema of the params; None when nobody gives one."""
    output_schema: Any = None
    source: str = "manifest"
    """Who describes it: the plugin's manifest, its last handshake, or the operator."""


class CatalogueSource(Protocol):
    """Something that has callable things, such as a host with its plugins."""

    def catalogue_entries(self) -> Iterable[CatalogueEntry]:
        """Its entries now. It must not wait for anything."""


class Catalogue:
    """The entries of all sources that have registered."""

    def __init__(self, events: EventHub, clock: Clock) -> None:
        self._events = events
        self._clock = clock
        self._sources: list[CatalogueSource] = []

    def register(self, source: CatalogueSource) -> Callable[[], None]:
        """Add a source. Returns a function that removes it."""
        self._sources.append(source)
        return lambda: self._sources.remove(source)

    def entries(self, plugin: str | None = None) -> list[CatalogueEntry]:
        """All entries, or those of one plugin, sorted by plugin and name."""
        found = [
            entry
            for source in self._sources
            for entry in source.catalogue_entries()
            if plugin is None or entry.plugin == plugin
        ]
        return sorted(found, key=lambda entry: (entry.plugin, entry.name, entry.kind))

    def changed(self, plugin: str, generation: int = 0) -> None:
        """A source has other entries of this plugin than before: tell the observers."""
        if self._events:
            self._events.publish(
                CatalogueChanged(plugin=plugin, generation=generation, at=self._clock.time())
            )


def describe(
    plugin: str, contract: str, sources: Sequence[tuple[str, Sequence[MethodDescription]]]
) -> list[CatalogueEntry]:
    """The entries of one plugin from its sources, the strongest last: what a later source says of a name
    replaces what an earlier one said, word by word. Texts are cut; long names and large schemas are left
    out."""
    merged: dict[tuple[str, str], CatalogueEntry] = {}
    for source, methods in sources:
        for method in methods[:MAX_METHODS]:
            if len(method.name) > MAX_NAME:
                continue
            key = (method.kind, method.name)
            before = merged.get(key) or CatalogueEntry(
                name=method.name, plugin=plugin, contract=contract, kind=method.kind
            )
            merged[key] = msgspec.structs.replace(
                before,
                source=source,
                title=_cut(method.title) or before.title,
                description=_cut(method.description) or before.description,
                input_schema=_bounded(method.input_schema) or before.input_schema,
                output_schema=_bounded(method.output_schema) or before.output_schema,
            )
    return list(merged.values())


def redact_methods(methods: Sequence[MethodDescription], redactor: Redactor) -> tuple[MethodDescription, ...]:
    """The same methods without the secrets that a plugin may have put into its own words."""
    told = redactor.redact_json([[getattr(method, name) for name in _TOLD] for method in methods])
    return tuple(
        msgspec.structs.replace(method, **dict(zip(_TOLD, words, strict=True)))
        for method, words in zip(methods, told, strict=True)
    )


_TOLD = ("name", "title", "description", "input_schema", "output_schema")
"""The fields of a method that hold a plugin's own words."""


def _cut(text: str) -> str:
    kept = head(text, MAX_TEXT)
    return f"{kept.unhidden}…" if kept.is_cut else text


def _bounded(schema: Any) -> Any:
    return schema if schema and len(msgspec.json.encode(schema)) <= MAX_SCHEMA else None
