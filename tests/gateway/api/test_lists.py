"""Lists: pages without gaps or doubles, and cursors that nobody else can use."""

from __future__ import annotations

import pytest

from tests.gateway.api.conftest import Client, InProcess


async def walk(client: Client, path: str, limit: int, meanwhile=None) -> list[str]:
    found: list[str] = []
    cursor: str | None = None
    while True:
        params: dict[str, str | int] = {"limit": limit} | ({} if cursor is None else {"cursor": cursor})
        page = (await client.get(path, params=params)).json()
        found += [each["name"] for each in page["items"]]
        cursor = page["next_cursor"]
        if meanwhile is not None:
            await meanwhile()
        if cursor is None:
            return found


@pytest.mark.clause("GW-06")
async def test_pages_have_every_item_once_newest_first_while_rows_are_added(gateway: InProcess) -> None:
    client = gateway.client()
    for number in range(11):
        gateway.time += number % 3  # some have the same time
        await client.post("/v1/projects", json={"name": f"p{number}"})
    plain = await walk(client, "/v1/projects", 200)
    assert len(plain) == 12
    added = 0

    async def add() -> None:
        nonlocal added
        added += 1
        gateway.time += 1
        await client.post("/v1/projects", json={"name": f"new{added}"})

    for limit in (1, 4, 5):
        seen = await walk(client, "/v1/projects", limit, add)
        old = [name for name in seen if not name.startswith("new")]
        assert old == [name for name in plain if not name.startswith("new")]


@pytest.mark.clause("GW-06")
async def test_a_cursor_is_for_one_caller_list_and_set_of_filters(gateway: InProcess) -> None:
    client, other = gateway.client(), gateway.client(await gateway.key("admin"))
    for number in range(3):
        await client.post("/v1/projects", json={"name": f"p{number}"})
    cursor = (await client.get("/v1/projects", params={"limit": 1})).json()["next_cursor"]
    assert (await client.get("/v1/projects", params={"cursor": cursor})).status_code == 200
    for who, path, changed in (
        (other, "/v1/projects", cursor),
        (client, "/v1/keys", cursor),
        (client, "/v1/projects", cursor[:-2] + ("AA" if cursor[-2:] != "AA" else "BB")),
        (client, "/v1/projects", ""),
        (client, "/v1/projects", "é"),
        (client, "/v1/projects", "x" * 5000),
    ):
        answer = await who.get(path, params={"cursor": changed})
        assert (answer.status_code, answer.json()["code"]) == (400, "invalid_cursor"), changed[:40]
