"""The recorded wire surface: nothing of it changes by accident."""

from __future__ import annotations

import difflib
import re
from typing import Annotated, Literal

import msgspec
import pytest

from plughost.conformance.ainb.type_names import TypeNames
from plughost.conformance.ainb.wire_surface import LOCK, listing
from plughost.contracts import jsonrpc
from plughost.contracts.ainb import contract, session
from tests.support import ROOT


@pytest.mark.clause("AINB-73", "AINB-74")
def test_the_wire_surface_is_the_one_that_is_recorded():
    difference = difflib.unified_diff(
        LOCK.read_text().splitlines(), listing().splitlines(), "recorded", "in the code", lineterm="", n=0
    )
    told = "\n".join(difference)
    assert not told, f"ainb's wire surface has changed:\n{told}\nIf that is meant: make surface"


def test_every_method_that_the_code_speaks_is_in_it():
    recorded = re.findall(r"^((?:plugin|host)/[\w/]+): ", LOCK.read_text(), re.M)
    code = [
        *(ROOT / "src/plughost/contracts/ainb").glob("*.py"),
        *(ROOT / "src/plughost/services").rglob("*.py"),
    ]
    spoken = {word for path in code for word in re.findall(r'"((?:plugin|host)/[\w/]+)"', path.read_text())}
    assert len(spoken) == 15
    assert spoken == set(recorded)


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ({"result": lambda content: {"data": content.data}}, "result {data: base64}"),
        ({"params": contract.messages.TopicParams}, "params TopicParams"),
        ({"checks": (), "capability": "network"}, "needs network"),
        ({"notification": True}, "notification, "),
        (
            {"service": "fs.read_dir", "result": lambda told: {"bytes": told}},
            "result {bytes: list of FolderEntry}",
        ),
    ],
)
def test_a_change_of_what_the_host_answers_shows(monkeypatch, change, line):
    method = "host/fs/read_file"
    changed = msgspec.structs.replace(contract.CONTRACT.host_methods[method], **change)
    monkeypatch.setitem(contract.CONTRACT.host_methods, method, changed)
    new = set(listing().splitlines()) - set(LOCK.read_text().splitlines())
    assert len(new) == 1
    assert new.pop().startswith(f"{method}: ")
    assert line in listing()


def test_a_change_of_a_constant_a_code_or_a_message_shows(monkeypatch):
    monkeypatch.setattr(session, "MAX_BODY", 1)
    monkeypatch.setitem(jsonrpc._CODES, contract.InvalidSpec, -1)
    monkeypatch.setattr(
        contract.Ainb, "event", lambda self, topic, payload: self._plugin.notify("plugin/news", {})
    )
    new = set(listing().splitlines()) - set(LOCK.read_text().splitlines())
    assert {"session.MAX_BODY = 1", "InvalidSpec: -1", "plugin/news: notification, params {}"} <= new


class Inner(msgspec.Struct, tag="inner", forbid_unknown_fields=True):
    pass


class Outer(msgspec.Struct, omit_defaults=True):
    needed: Annotated[int, msgspec.Meta(ge=1, le=9)]
    inner: Inner | None = None
    kind: Literal["a", "b"] = "a"
    parts: list[tuple[str, bytes]] = []
    renamed: bool = msgspec.field(default=True, name="other")
    raw: msgspec.Raw = msgspec.Raw(b"")
    table: dict[str, float] = msgspec.field(default_factory=lambda: {"x": 1.0})


def test_a_struct_is_told_by_names_types_and_defaults():
    type_names = TypeNames()
    assert list(type_names.members(Outer)) == [
        "Outer.needed: integer 1..9",
        "Outer.inner: Inner or null = null",
        "Outer.kind: 'a' or 'b' = \"a\"",
        "Outer.parts: list of [text, base64] = []",
        "Outer.other: boolean = true",
        "Outer.raw: anything = absent",
        'Outer.table: object = {"x":1.0}',
        "Outer: defaults are left out",
    ]
    assert list(type_names.structs()) == [Inner]
    assert list(type_names.members(Inner)) == ["Inner.type: 'inner'", "Inner: no other members"]
