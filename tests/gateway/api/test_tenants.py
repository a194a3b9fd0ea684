"""Organisations and projects: who sees and changes them."""

from __future__ import annotations

import asyncio

import pytest

from tests.gateway.api.conftest import InProcess


@pytest.mark.clause("GW-20")
async def test_only_the_first_key_makes_organisations(gateway: InProcess) -> None:
    assert (await gateway.client().post("/v1/orgs", json={"name": "acme"})).status_code == 201
    other = gateway.client(await gateway.key("admin"))
    answer = await other.post("/v1/orgs", json={"name": "more"})
    assert (answer.status_code, answer.json()["code"]) == (403, "forbidden")


@pytest.mark.clause("GW-05", "GW-20")
async def test_another_organisations_records_are_unknown_never_forbidden(gateway: InProcess) -> None:
    stranger = gateway.client(await gateway.org_admin())
    project = (await gateway.client().get("/v1/projects")).json()["items"][0]
    key_id = gateway.admin[8:24]
    for method, path in (
        ("GET", f"/v1/projects/{project['project_id']}"),
        ("GET", f"/v1/orgs/{project['org_id']}"),
        ("DELETE", f"/v1/keys/{key_id}"),
    ):
        answer = await stranger.request(method, path)
        assert (answer.status_code, answer.json()["code"]) == (404, "not_found"), path
    renamed = await stranger.patch(f"/v1/projects/{project['project_id']}", json={"name": "mine"})
    assert renamed.status_code == 404
    secret = await stranger.get("/v1/secrets", headers={"Vai-Project": project["project_id"]})
    assert (secret.status_code, secret.json()["code"]) == (404, "not_found")
    assert (await stranger.get("/v1/projects")).json()["items"] == []


@pytest.mark.clause("GW-08")
async def test_a_stale_change_is_refused_and_two_writers_lose_nothing(gateway: InProcess) -> None:
    client = gateway.client()
    path = f"/v1/projects/{(await client.get('/v1/projects')).json()['items'][0]['project_id']}"
    first = await client.get(path)
    assert first.headers["etag"] == '"1"'
    headers = {"If-Match": first.headers["etag"]}
    both = await asyncio.gather(
        *(client.patch(path, json={"name": name}, headers=headers) for name in ("one", "two"))
    )
    assert sorted(answer.status_code for answer in both) == [200, 412]
    [done] = [answer for answer in both if answer.status_code == 200]
    now = await client.get(path)
    assert now.json()["name"] == done.json()["name"]
    assert now.headers["etag"] == done.headers["etag"] == '"2"'
    assert (await client.patch(path, json={"name": "three"})).json()["revision"] == 3


@pytest.mark.clause("GW-20")
async def test_a_key_of_an_organisation_names_a_project(gateway: InProcess) -> None:
    client = gateway.client()
    answer = await client.get("/v1/secrets")
    assert (answer.status_code, answer.json()["code"]) == (400, "project_required")
    project = (await client.get("/v1/projects")).json()["items"][0]["project_id"]
    assert (await client.get("/v1/secrets", headers={"Vai-Project": project})).status_code == 200
    own = gateway.client(await gateway.key("secrets:read", project_id=project))
    assert (await own.get("/v1/secrets")).status_code == 200
    other = (await client.post("/v1/projects", json={"name": "other"})).json()["project_id"]
    assert (await own.get("/v1/secrets", headers={"Vai-Project": other})).status_code == 404
