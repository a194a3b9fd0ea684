"""Idempotency-Keys: the same request is done once, whoever repeats it, wherever and whenever."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from plughost.gateway.changes import KEEP_SECONDS
from tests.gateway.api.conftest import InProcess

ONCE = {"Idempotency-Key": "k1"}


@pytest.mark.clause("GW-07")
async def test_the_same_key_gives_the_same_answer_also_in_another_process(
    gateway: InProcess, second: InProcess
) -> None:
    first = await gateway.client().post("/v1/projects", json={"name": "p"}, headers=ONCE)
    again = await second.client().post("/v1/projects", json={"name": "p"}, headers=ONCE)
    assert first.json() == again.json()
    assert first.status_code == again.status_code == 201
    assert (first.headers.get("idempotent-replayed"), again.headers["idempotent-replayed"]) == (None, "true")
    assert len((await gateway.client().get("/v1/projects")).json()["items"]) == 2


@pytest.mark.clause("GW-07")
async def test_many_at_once_in_two_processes_make_one(gateway: InProcess, second: InProcess) -> None:
    answers = await asyncio.gather(
        *(
            process.client().post("/v1/projects", json={"name": "p"}, headers=ONCE)
            for process in (gateway, second) * 8
        )
    )
    assert {answer.status_code for answer in answers} == {201}
    assert len({answer.json()["project_id"] for answer in answers}) == 1
    assert len((await gateway.client().get("/v1/projects")).json()["items"]) == 2


@pytest.mark.clause("GW-07")
async def test_another_body_under_a_used_key_is_refused(gateway: InProcess) -> None:
    client = gateway.client()
    await client.post("/v1/projects", json={"name": "p"}, headers=ONCE)
    answer = await client.post("/v1/projects", json={"name": "q"}, headers=ONCE)
    assert (answer.status_code, answer.json()["code"]) == (422, "key_reused")


@pytest.mark.clause("GW-07")
async def test_keys_belong_to_a_principal_and_a_route(gateway: InProcess) -> None:
    other = gateway.client(await gateway.key("admin"))
    first = (await gateway.client().post("/v1/projects", json={"name": "p"}, headers=ONCE)).json()
    assert (await other.post("/v1/projects", json={"name": "p"}, headers=ONCE)).json() != first
    assert (await gateway.client().post("/v1/orgs", json={"name": "p"}, headers=ONCE)).status_code == 201


@pytest.mark.clause("GW-07")
async def test_a_value_that_is_shown_once_is_null_in_a_repeat(gateway: InProcess, tmp_path: Path) -> None:
    wanted = {"name": "x", "scopes": ["keys:read"]}
    first = (await gateway.client().post("/v1/keys", json=wanted, headers=ONCE)).json()
    again = (await gateway.client().post("/v1/keys", json=wanted, headers=ONCE)).json()
    assert first["key"]
    assert again == {**first, "key": None}
    stored = b"".join(file.read_bytes() for file in tmp_path.glob("vai.db*"))
    assert first["key"].encode() not in stored


@pytest.mark.clause("GW-07")
async def test_a_refusal_is_an_answer_too_but_not_one_for_want_of_rights(gateway: InProcess) -> None:
    client = gateway.client()
    missing = {"name": "x", "scopes": ["keys:read"], "project_id": "proj_none"}
    answers = [await client.post("/v1/keys", json=missing, headers=ONCE) for _ in range(2)]
    assert [answer.json()["code"] for answer in answers] == ["not_found"] * 2
    weak = gateway.client(await gateway.key("keys:write"))
    wide = {"name": "x", "scopes": ["audit:read"]}
    assert (await weak.post("/v1/keys", json=wide, headers=ONCE)).status_code == 403
    narrow = {"name": "x", "scopes": ["keys:write"]}
    assert (await weak.post("/v1/keys", json=narrow, headers=ONCE)).status_code == 201


@pytest.mark.clause("GW-07")
async def test_after_a_day_a_key_is_new_again(gateway: InProcess) -> None:
    client = gateway.client()
    first = (await client.post("/v1/projects", json={"name": "p"}, headers=ONCE)).json()
    gateway.time += KEEP_SECONDS + 1
    assert (await client.post("/v1/projects", json={"name": "p"}, headers=ONCE)).json() != first


async def test_a_key_that_is_too_long_is_refused(gateway: InProcess) -> None:
    answer = await gateway.client().post(
        "/v1/projects", json={"name": "p"}, headers={"Idempotency-Key": "k" * 256}
    )
    assert (answer.status_code, answer.json()["code"]) == (400, "invalid_request")
