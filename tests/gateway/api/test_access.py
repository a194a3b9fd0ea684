"""Every route answers only who may use it: the table of routes and scopes is walked."""

from __future__ import annotations

from typing import Any

import pytest

from plughost.gateway.api.all_routes import ROUTES
from plughost.gateway.app import create_app
from plughost.gateway.auth.scopes import SCOPES
from plughost.gateway.openapi import scope_table
from tests.gateway.api.conftest import InProcess

PUBLIC = {("GET", "/healthz"), ("GET", "/readyz"), ("GET", "/openapi.json")}


def table(gateway: InProcess) -> list[tuple[str, str, str | None]]:
    return scope_table(create_app(gateway.services, ROUTES)._app)  # type: ignore[attr-defined]


def concrete(path: str) -> str:
    while "{" in path:
        head, _, rest = path.partition("{")
        path = f"{head}x{rest.partition('}')[2]}"
    return path


@pytest.mark.clause("GW-11", "GW-17")
async def test_few_routes_are_public_and_every_other_names_a_known_scope(gateway: InProcess) -> None:
    rows = table(gateway)
    assert {(method, path) for method, path, scope in rows if scope is None} == PUBLIC
    assert {scope for _, _, scope in rows if scope is not None} <= SCOPES
    assert len(rows) == sum(len(handler.http_methods) for handler in ROUTES)  # type: ignore[union-attr]


@pytest.mark.clause("GW-17")
async def test_no_route_answers_a_wrong_credential(gateway: InProcess) -> None:
    expired = await gateway.key("admin", expires_at=gateway.time + 1)
    revoked = await gateway.key("admin")
    await gateway.client().delete(f"/v1/keys/{revoked[8:24]}")
    weak = {scope: await gateway.key(*(SCOPES - {"admin", scope})) for scope in _scopes(gateway)}
    gateway.time += 2
    for method, path, scope in table(gateway):
        if scope is None:
            continue
        place = concrete(path)
        for credential in ("", "nonsense", expired, revoked):
            answer = await gateway.client(credential).request(method, place)
            assert (answer.status_code, answer.json()["code"]) == (401, "unauthenticated"), (method, path)
        answer = await gateway.client(weak[scope]).request(method, place)
        assert (answer.status_code, answer.json()["code"]) == (403, "forbidden"), (method, path)
        assert scope in answer.json()["detail"]


def _scopes(gateway: InProcess) -> set[str]:
    return {scope for _, _, scope in table(gateway) if scope is not None}


@pytest.mark.clause("GW-19")
async def test_refusals_and_changes_are_in_the_audit_log_without_bodies(gateway: InProcess) -> None:
    weak = gateway.client(await gateway.key("keys:read"))
    await weak.get("/v1/audit")
    project = (await gateway.client().get("/v1/projects")).json()["items"][0]["project_id"]
    stored = await gateway.client().put(
        "/v1/secrets/db", json={"value": "hunter2hunter2"}, headers={"Vai-Project": project}
    )
    assert stored.status_code == 200, stored.text
    await gateway.services.denials.close()
    answer = await gateway.client().get("/v1/audit", params={"limit": 200})
    lines: list[dict[str, Any]] = answer.json()["items"]
    seen = {(line["action"], line["outcome"]) for line in lines}
    assert {("GET /v1/audit", "forbidden"), ("secrets.put", "done"), ("keys.create", "done")} <= seen
    assert all(line["request_id"] for line in lines if line["actor"] != "operator:start")
    assert "hunter2" not in answer.text
    only = (await gateway.client().get("/v1/audit", params={"outcome": "forbidden"})).json()["items"]
    assert [line["action"] for line in only] == ["GET /v1/audit"]


@pytest.mark.clause("GW-10")
async def test_too_many_requests_are_refused_for_that_caller_only(gateway: InProcess) -> None:
    key, other = await gateway.key("keys:read"), await gateway.key("keys:read")
    limit = gateway.services.options.requests_per_second
    for _ in range(limit):
        gateway.services.limits.take(f"key:{key[8:24]}")
    answer = await gateway.client(key).get("/v1/keys")
    assert (answer.status_code, answer.json()["code"]) == (429, "too_many_requests")
    assert answer.headers["retry-after"] == "1"
    assert (await gateway.client(other).get("/v1/keys")).status_code == 200
    gateway.clock.advance(1.0)
    assert (await gateway.client(key).get("/v1/keys")).status_code == 200


@pytest.mark.clause("GW-11")
async def test_other_hosts_and_origins_are_refused(gateway: InProcess) -> None:
    client = gateway.client()
    foreign = await client.get("/v1/keys", headers={"Host": "evil.example"})
    assert (foreign.status_code, foreign.json()["code"]) == (403, "host_not_allowed")
    assert (await client.get("/v1/keys", headers={"Host": "127.0.0.1:8750"})).status_code == 200
    page = await client.get("/v1/keys", headers={"Origin": "https://evil.example"})
    assert (page.status_code, page.json()["code"]) == (403, "foreign_origin")
    assert "access-control-allow-origin" not in page.headers
    assert (await client.get("/v1/keys", headers={"Cookie": "a=b"})).status_code == 200


@pytest.mark.clause("GW-11")
async def test_every_answer_has_a_request_id_and_is_not_cached(gateway: InProcess) -> None:
    for path in ("/healthz", "/nope", "/v1/keys"):
        answer = await gateway.client("").get(path)
        assert answer.headers["request-id"].startswith("req_")
        assert answer.headers["cache-control"] == "no-store"
    given = await gateway.client().get("/healthz", headers={"Request-Id": "mine-1"})
    assert given.headers["request-id"] == "mine-1"
    forged = await gateway.client().get("/healthz", headers={"Request-Id": "a b\x01"})
    assert forged.headers["request-id"].startswith("req_")
