"""The catalogue: what several say about one method becomes one entry, within bounds."""

from __future__ import annotations

from plughost.catalogue import MAX_NAME, MAX_SCHEMA, MAX_TEXT, Catalogue, CatalogueEntry, describe
from plughost.events import CatalogueChanged, EventHub
from plughost.testing import VirtualClock
from plughost.wire.method_description import MAX_METHODS, MethodDescription

SCHEMA = {"type": "object"}


def test_what_the_operator_says_counts_more_than_the_manifest_word_by_word():
    manifest = [MethodDescription(name="a", title="A", description="from the author", input_schema=SCHEMA)]
    operator = [MethodDescription(name="a", description="from the operator"), MethodDescription(name="b")]
    found = describe("p", "c", [("manifest", manifest), ("operator", operator)])
    assert found == [
        CatalogueEntry(
            name="a", plugin="p", contract="c", title="A", description="from the operator", input_schema=SCHEMA,
            source="operator",
        ),
        CatalogueEntry(name="b", plugin="p", contract="c", source="operator"),
    ]  # fmt: skip


def test_two_kinds_may_have_one_name():
    methods = [MethodDescription(name="a"), MethodDescription(name="a", kind="command")]
    assert [entry.kind for entry in describe("p", "c", [("manifest", methods)])] == ["method", "command"]


def test_a_manifest_cannot_fill_the_catalogue():
    many = [MethodDescription(name=str(number)) for number in range(MAX_METHODS + 5)]
    assert len(describe("p", "c", [("manifest", many)])) == MAX_METHODS
    long = MethodDescription(
        name="a", title="t" * 10_000, description="d" * 10_000, input_schema={"x": "y" * MAX_SCHEMA}
    )
    (entry,) = describe("p", "c", [("manifest", [long])])
    assert (len(entry.title), len(entry.description), entry.input_schema) == (
        MAX_TEXT + 1,
        MAX_TEXT + 1,
        None,
    )
    assert describe("p", "c", [("manifest", [MethodDescription(name="n" * (MAX_NAME + 1))])]) == []


class Source:
    def __init__(self, *names: str) -> None:
        self.names = names

    def catalogue_entries(self):
        return [CatalogueEntry(name=name, plugin="far", contract="c") for name in self.names]


def test_sources_register_and_are_removed():
    catalogue = Catalogue(EventHub(), VirtualClock())
    catalogue.register(Source("b", "a"))
    remove = catalogue.register(Source("c"))
    assert [entry.name for entry in catalogue.entries()] == ["a", "b", "c"]
    remove()
    assert [entry.name for entry in catalogue.entries("far")] == ["a", "b"]
    assert catalogue.entries("near") == []


async def test_a_change_is_an_event():
    events = EventHub()
    catalogue = Catalogue(events, VirtualClock())
    catalogue.changed("nobody listens")
    with events.subscribe(10, CatalogueChanged) as changes:
        catalogue.changed("p", 3)
        (event,) = [changes.take()]
    assert (event.plugin, event.generation) == ("p", 3)
