"""Whatever is wrong with a request has its own code, and is never a 500."""

from __future__ import annotations

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from plughost.gateway.problems import CODES
from tests.gateway.api.conftest import InProcess

JSON = {"Content-Type": "application/json"}


@pytest.mark.clause("GW-05", "VAI-73")
@pytest.mark.parametrize(
    ("method", "path", "content", "headers", "code"),
    [
        ("POST", "/v1/projects", b"{", JSON, "invalid_json"),
        ("POST", "/v1/projects", b"\xff", JSON, "invalid_json"),
        ("POST", "/v1/projects", b'{"name": 5}', JSON, "invalid_request"),
        ("POST", "/v1/projects", b"[]", JSON, "invalid_request"),
        ("POST", "/v1/projects", b'{"name": "x", "more": 1}', JSON, "invalid_request"),
        ("POST", "/v1/projects", b'{"name": ""}', JSON, "invalid_request"),
        ("POST", "/v1/projects", b'{"name": "x"}', {"Content-Type": "text/plain"}, "unsupported_media_type"),
        ("POST", "/v1/projects", b'{"name": "x"}', {}, "unsupported_media_type"),
        ("POST", "/v1/projects", b'{"name": "' + b"x" * (1 << 20) + b'"}', JSON, "body_too_large"),
        ("GET", "/v1/projects/proj_none", b"", {}, "not_found"),
        ("GET", "/v1/nothing", b"", {}, "no_such_route"),
        ("GET", "/v1/projects/a%2Fb", b"", {}, "no_such_route"),
        ("DELETE", "/v1/audit", b"", {}, "method_not_allowed"),
        ("GET", "/v1/projects?limit=0", b"", {}, "invalid_request"),
        ("GET", "/v1/projects?limit=201", b"", {}, "invalid_request"),
        ("GET", "/v1/projects?limit=many", b"", {}, "invalid_request"),
        ("GET", "/v1/projects?color=red", b"", {}, "unknown_filter"),
        ("GET", "/v1/projects?cursor=abc", b"", {}, "invalid_cursor"),
        ("PATCH", "/v1/projects/x", b'{"name": "y"}', {**JSON, "If-Match": "soon"}, "stale"),
    ],
)
async def test_each_mistake_has_its_own_code(
    gateway: InProcess, method: str, path: str, content: bytes, headers: dict[str, str], code: str
) -> None:
    answer = await gateway.client().request(method, path, content=content, headers=headers)
    problem = answer.json()
    assert (problem["code"], answer.status_code) == (code, CODES[code].status), answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    assert problem.keys() == {"type", "title", "status", "detail", "code", "errors", "hint"}
    assert problem["hint"]


async def test_a_wrong_value_is_named_by_a_pointer(gateway: InProcess) -> None:
    body = {"name": "x", "scopes": ["keys:read", 5]}
    answer = (await gateway.client().post("/v1/keys", json=body)).json()
    assert [each["pointer"] for each in answer["errors"]] == ["/scopes/1"]


async def test_a_broken_database_is_told_without_details(gateway: InProcess) -> None:
    await gateway.database.close()
    answer = await gateway.client().get("/v1/projects")
    assert answer.status_code in (500, 503)
    assert answer.json()["code"] in ("internal_error", "unavailable")
    assert "Traceback" not in answer.text
    assert (await gateway.client().get("/healthz")).status_code == 200
    assert (await gateway.client().get("/readyz")).status_code in (500, 503)


@pytest.mark.clause("GW-09")
async def test_a_gateway_that_ends_refuses_new_work(gateway: InProcess) -> None:
    gateway.services.is_ending = True
    answer = await gateway.client().get("/v1/projects")
    assert (answer.status_code, answer.json()["code"]) == (503, "unavailable")
    assert answer.headers["retry-after"]
    assert (await gateway.client().get("/readyz")).status_code == 503
    assert (await gateway.client().get("/healthz")).status_code == 200


PATHS = ["/v1/projects", "/v1/keys", "/v1/orgs", "/v1/audit", "/v1/secrets", "/v1/secrets/x", "/v1/keys/y"]


@given(
    method=st.sampled_from(["GET", "POST", "PUT", "PATCH", "DELETE"]),
    path=st.sampled_from(PATHS),
    body=st.one_of(
        st.binary(max_size=200),
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.text(max_size=20),
            lambda inner: (
                st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
            ),
            max_leaves=8,
        ).map(lambda value: httpx.Request("POST", "http://x", json=value).content),
    ),
    query=st.text(st.characters(codec="utf-8", exclude_categories=["Cs"]), max_size=30),
    key=st.text(st.characters(min_codepoint=33, max_codepoint=126), max_size=30),
)
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
async def test_nothing_that_is_sent_is_answered_with_a_500(gateway, method, path, body, query, key) -> None:
    gateway.clock.advance(1.0)
    headers = {**JSON, "Idempotency-Key": key, "If-Match": key, "Vai-Project": key}
    answer = await gateway.client().request(
        method, path, content=body, params={"limit": query, "cursor": query}, headers=headers
    )
    assert answer.status_code < 500, answer.text
