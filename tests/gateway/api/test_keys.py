"""API keys: what a key opens, and how it is made, narrowed, revoked and stored."""

from __future__ import annotations

from pathlib import Path

import pytest

from plughost.gateway.auth.api_keys import FIND
from plughost.gateway.auth.scopes import ROLES, SCOPES, is_within
from tests.gateway.api.conftest import InProcess


@pytest.mark.clause("GW-15")
async def test_a_key_is_shown_once_and_opens_what_its_scopes_name(gateway: InProcess) -> None:
    made = (await gateway.client().post("/v1/keys", json={"name": "ci", "scopes": ["keys:read"]})).json()
    assert made["key"].startswith(f"vai_key_{made['key_id']}_")
    client = gateway.client(made["key"])
    listed = (await client.get("/v1/keys")).json()["items"]
    assert made["key_id"] in {each["key_id"] for each in listed}
    assert not [each for each in listed if "key" in each or "digest" in each]
    refused = await client.get("/v1/audit")
    assert (refused.status_code, refused.json()["code"]) == (403, "forbidden")
    assert "audit:read" in refused.json()["detail"]


@pytest.mark.clause("GW-15")
async def test_the_database_never_has_the_secret(gateway: InProcess, tmp_path: Path) -> None:
    key = await gateway.key("keys:read")
    secret = key.rpartition("_")[2] if "_" not in key[25:] else key[25:]
    row = (await gateway.database.read(FIND(key_id=key[8:24]))).first()
    assert row is not None
    assert len(bytes(row["digest"])) == 32
    for file in tmp_path.glob("vai.db*"):
        assert secret.encode() not in file.read_bytes()


@pytest.mark.clause("GW-15")
@pytest.mark.parametrize(
    "credential",
    ["", "x", "vai_key_", "vai_key_0123456789abcdef_", "vai_key_0123456789abcdef_" + "A" * 43, "a" * 5000],
)
async def test_a_wrong_key_opens_nothing(gateway: InProcess, credential: str) -> None:
    answer = await gateway.client(credential).get("/v1/keys")
    assert (answer.status_code, answer.json()["code"]) == (401, "unauthenticated")
    assert answer.headers["www-authenticate"].startswith("Bearer")


@pytest.mark.clause("GW-15")
async def test_the_secret_of_another_key_does_not_fit(gateway: InProcess) -> None:
    one, other = await gateway.key("keys:read"), await gateway.key("keys:read")
    mixed = one[:25] + other[25:]
    assert (await gateway.client(mixed).get("/v1/keys")).status_code == 401


@pytest.mark.clause("GW-15")
async def test_a_revoked_key_is_refused_in_every_process_within_a_second(
    gateway: InProcess, second: InProcess
) -> None:
    key = await gateway.key("keys:read")
    assert (await second.client(key).get("/v1/keys")).status_code == 200
    revoked = await gateway.client().delete(f"/v1/keys/{key[8:24]}")
    assert revoked.json()["revoked_at"] is not None
    assert (await gateway.client(key).get("/v1/keys")).status_code == 401
    second.clock.advance(1.01)  # also if no announcement comes through
    answer = await second.client(key).get("/v1/keys")
    assert (answer.status_code, answer.json()["detail"]) == (401, "the API key was revoked")


@pytest.mark.clause("GW-15")
async def test_a_key_expires(gateway: InProcess) -> None:
    key = await gateway.key("keys:read", expires_at=gateway.time + 60)
    assert (await gateway.client(key).get("/v1/keys")).status_code == 200
    gateway.time += 61
    assert (await gateway.client(key).get("/v1/keys")).json()["detail"] == "the API key has expired"


@pytest.mark.clause("GW-16")
async def test_nobody_makes_a_key_wider_than_their_own(gateway: InProcess) -> None:
    narrow = gateway.client(await gateway.key("keys:write", "keys:read"))
    refused = await narrow.post("/v1/keys", json={"name": "x", "scopes": ["keys:read", "audit:read"]})
    assert (refused.status_code, refused.json()["code"]) == (403, "forbidden")
    assert (await narrow.post("/v1/keys", json={"name": "x", "scopes": ["keys:read"]})).status_code == 201
    project = (await gateway.client().get("/v1/projects")).json()["items"][0]["project_id"]
    of_project = gateway.client(await gateway.key("keys:write", project_id=project))
    wider = await of_project.post("/v1/keys", json={"name": "x", "scopes": ["keys:write"]})
    assert wider.status_code == 403, "a key of one project makes none of the whole organisation"
    own = {"name": "x", "scopes": ["keys:write"], "project_id": project}
    assert (await of_project.post("/v1/keys", json=own)).status_code == 201


async def test_everything_wrong_with_a_wanted_key_is_told_at_once(gateway: InProcess) -> None:
    wanted = {"name": "", "scopes": ["keys:read", "root", "x:y"], "expires_at": 1.0}
    answer = (await gateway.client().post("/v1/keys", json=wanted)).json()
    assert answer["code"] == "invalid_request"
    assert sorted(each["pointer"] for each in answer["errors"]) == [
        "/expires_at",
        "/name",
        "/scopes",
        "/scopes",
    ]


async def test_the_last_key_that_makes_organisations_stays(gateway: InProcess) -> None:
    own = gateway.admin[8:24]
    answer = await gateway.client().delete(f"/v1/keys/{own}")
    assert (answer.status_code, answer.json()["code"]) == (409, "conflict")


async def test_the_last_use_is_noted(gateway: InProcess) -> None:
    key = await gateway.key("keys:read")
    await gateway.client(key).get("/v1/keys")
    await gateway.services.keys.close()
    row = (await gateway.database.read(FIND(key_id=key[8:24]))).first()
    assert row is not None
    assert row["last_used_at"] == gateway.time


@pytest.mark.clause("GW-16")
def test_roles_are_sets_of_scopes_that_widen() -> None:
    for name, scopes in ROLES.items():
        assert scopes <= SCOPES, name
    assert ROLES["viewer"] < ROLES["developer"] < ROLES["operator"]
    assert is_within(ROLES["operator"], ROLES["admin"])
    assert not is_within(ROLES["admin"], ROLES["operator"])
