"""Secrets over HTTP: written, listed by name, never read."""

from __future__ import annotations

import pytest

from tests.gateway.api.conftest import InProcess

VALUE = "correct horse battery staple"


@pytest.mark.clause("GW-31")
async def test_a_secret_is_stored_listed_and_deleted_and_its_value_never_shown(gateway: InProcess) -> None:
    client = gateway.client()
    project = (await client.get("/v1/projects")).json()["items"][0]["project_id"]
    client.headers["Vai-Project"] = project
    answers = [await client.put("/v1/secrets/db", json={"value": VALUE}) for _ in range(2)]
    assert [answer.json()["version"] for answer in answers] == [1, 2]
    answers.append(await client.put("/v1/secrets/api", json={"value": VALUE, "packages": ["acme/devkit"]}))
    listed = await client.get("/v1/secrets", params={"limit": 1})
    names = [each["name"] for each in listed.json()["items"]]
    rest = await client.get("/v1/secrets", params={"limit": 1, "cursor": listed.json()["next_cursor"]})
    assert sorted(names + [each["name"] for each in rest.json()["items"]]) == ["api", "db"]
    answers += [listed, rest, await client.delete("/v1/secrets/db")]
    assert all(VALUE not in answer.text for answer in answers)
    gone = await client.delete("/v1/secrets/db")
    assert (gone.status_code, gone.json()["code"]) == (404, "not_found")
    audit = (await client.get("/v1/audit")).text
    assert VALUE not in audit
    assert f"/{project}/db" in audit


@pytest.mark.clause("GW-31")
@pytest.mark.parametrize(
    "body", [{"value": "x"}, {"value": ""}, {"value": 5}, {}, {"value": VALUE, "packages": ["*"]}]
)
async def test_a_wrong_secret_is_refused_without_being_repeated(gateway: InProcess, body: dict) -> None:
    client = gateway.client()
    client.headers["Vai-Project"] = (await client.get("/v1/projects")).json()["items"][0]["project_id"]
    answer = await client.put("/v1/secrets/db", json=body)
    assert (answer.status_code, answer.json()["code"]) == (400, "invalid_request")
    assert VALUE not in answer.text
    assert (await client.get("/v1/secrets")).json()["items"] == []
