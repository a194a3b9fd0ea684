"""Drafts and merge patches of bindings."""

from __future__ import annotations

import contextlib
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from plughost.gateway.bindings.documents import BindingDocument, Rollout
from plughost.gateway.bindings.merge_patch import merge
from plughost.gateway.bindings.reading import patched, read_draft
from plughost.gateway.problems import Problem
from plughost.vai.bindings.binding import BindingPolicy, Scope

SCALARS = st.none() | st.booleans() | st.integers() | st.text(max_size=3)
JSON = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=12,
)

RFC_7396 = [
    ({"a": "b"}, {"a": "c"}, {"a": "c"}),
    ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
    ({"a": "b"}, {"a": None}, {}),
    ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
    ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
    ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
    ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
    ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
    (["a", "b"], ["c", "d"], ["c", "d"]),
    ({"a": "b"}, ["c"], ["c"]),
    ({"a": "foo"}, None, None),
    ({"a": "foo"}, "bar", "bar"),
    ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
    ([1, 2], {"a": "b", "c": None}, {"a": "b"}),
    ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
]
"""The examples of the RFC, appendix A."""


@pytest.mark.clause("GW-08")
@pytest.mark.parametrize(("target", "patch", "result"), RFC_7396)
def test_merge_patches_are_those_of_the_rfc(target: Any, patch: Any, result: Any) -> None:
    assert merge(target, patch) == result


def without_nulls(value: Any) -> bool:
    inside = value.values() if isinstance(value, dict) else ()
    return value is not None and all(map(without_nulls, inside))


@given(JSON, JSON)
def test_a_merge_changes_neither_argument_and_twice_is_once(target: Any, patch: Any) -> None:
    copies = msgspec.json.encode([target, patch])
    merged = merge(target, patch)
    assert msgspec.json.encode([target, patch]) == copies
    assert merge(merged, patch) == merged


@given(JSON.filter(without_nulls), JSON.filter(without_nulls))
def test_some_patch_makes_any_document_from_any_other(one: Any, other: Any) -> None:
    assert merge(one, difference(one, other)) == other


def difference(one: Any, other: Any) -> Any:
    if not isinstance(other, dict):
        return other
    known = one if isinstance(one, dict) else {}
    return {name: None for name in known if name not in other} | {
        name: difference(known.get(name), value) for name, value in other.items()
    }


def test_a_patch_that_is_nested_too_deeply_is_refused() -> None:
    deep: Any = {}
    for _ in range(5000):
        deep = {"a": deep}
    with pytest.raises(Problem, match="nested"):
        merge({}, deep)


NOW = 1763456789.123457
DOCUMENT = BindingDocument(
    binding_id="bind_1",
    package_id="acme/jira",
    package_version="1.0.0",
    export_id="search",
    scope=Scope("org_1", "proj_1"),
    config={"a": 1},
    secrets={"token": "secret://org_1/t"},
    policy=BindingPolicy(timeout_ms=5, scopes=frozenset({"runs:read", "chains:read"})),
    status="active",
    rollout=Rollout(30),
    revision=3,
    created_at=NOW,
    updated_at=NOW,
)


def places(caught: pytest.ExceptionInfo[Problem]) -> list[str]:
    assert caught.value.code == "invalid_request"
    return [each.pointer for each in caught.value.errors]


@pytest.mark.clause("GW-08")
def test_a_document_sent_back_as_it_was_read_changes_nothing() -> None:
    after = patched(DOCUMENT, msgspec.json.decode(msgspec.json.encode(DOCUMENT)))
    assert after == msgspec.structs.replace(DOCUMENT.content, traffic_percent=None)


def test_null_gives_the_default_of_what_may_be_absent() -> None:
    after = patched(DOCUMENT, {"config": None, "secrets": None, "policy": {"timeout_ms": None}})
    assert (after.config, after.secrets) == ({}, {})
    assert after.policy == BindingPolicy(scopes=frozenset({"runs:read", "chains:read"}))


@pytest.mark.clause("GW-26")
def test_everything_that_is_wrong_with_a_patch_is_listed_with_its_place() -> None:
    body = {
        "package_version": "2.0.0",
        "scope": {"project_id": "proj_2"},
        "revision": 4,
        "extra/~": 1,
        "config": [],
        "secrets": {"a/b": 5},
        "policy": {"timeout_ms": "5", "speed": 1, "scopes": "runs:read"},
        "status": "on",
        "rollout": {"traffic_percent": 101, "x": 1},
    }
    with pytest.raises(Problem) as caught:
        patched(DOCUMENT, body)
    assert sorted(places(caught)) == [
        "/config",
        "/extra~1~0",
        "/package_version",
        "/policy/scopes",
        "/policy/speed",
        "/policy/timeout_ms",
        "/revision",
        "/rollout/traffic_percent",
        "/rollout/x",
        "/scope",
        "/secrets/a~1b",
        "/status",
    ]


@pytest.mark.parametrize("body", [{"status": None}, {"rollout": None}, {"binding_id": None}, {"scope": None}])
def test_what_every_binding_has_cannot_be_removed(body: dict[str, Any]) -> None:
    with pytest.raises(Problem) as caught:
        patched(DOCUMENT, body)
    assert set(places(caught)) == {f"/{next(iter(body))}"}


@pytest.mark.parametrize("body", [None, [], "text", 5])
def test_a_body_that_is_not_an_object_is_refused(body: Any) -> None:
    for read in (read_draft, lambda body: patched(DOCUMENT, body)):
        with pytest.raises(Problem, match="must be a JSON object"):
            read(body)


@given(JSON)
def test_any_patch_is_applied_or_refused(body: Any) -> None:
    for patch in (body, {"config": body}, {"policy": body}, {"secrets": body}, {"rollout": body}):
        with contextlib.suppress(Problem):
            patched(DOCUMENT, patch)


def test_a_draft_is_read_and_its_errors_are_listed() -> None:
    draft = read_draft(
        {"package_id": "a/b", "package_version": "1.0.0", "export_id": "e", "config": {"x": 1}}
    )
    assert (draft.content.config, draft.content.status, draft.content.traffic_percent) == (
        {"x": 1},
        "active",
        None,
    )
    with pytest.raises(Problem) as caught:
        read_draft({"package_id": "", "package_version": 1, "revision": 1, "policy": []})
    assert sorted(places(caught)) == ["/export_id", "/package_id", "/package_version", "/policy", "/revision"]
