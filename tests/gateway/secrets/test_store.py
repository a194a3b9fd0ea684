"""The store: versions, lists, deletion, and nothing in the clear."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from plughost.gateway.auth.principal import Principal
from plughost.gateway.changes import ChangeRequest, Changes
from plughost.gateway.problems import Problem
from plughost.gateway.secrets.gateway_secrets import GatewaySecrets
from plughost.gateway.secrets.secret_store import SecretDocument, SecretStore
from plughost.vai.bindings.binding import Scope
from plughost.vai.database.database import Database, Steps
from plughost.vai.database.open_database import open_database
from plughost.vai.database.sealing import Seal
from plughost.vai.database.statements import statement
from plughost.vai.maintenance.transfer import export_database
from tests.gateway.secrets.conftest import (
    ORG,
    OTHER_ORG,
    OTHER_PROJECT,
    PROJECT,
    VALUE,
    audit_lines,
    put,
    unused,
    use,
)
from tests.support.postgres import Server

CHECKPOINT = statement("checkpoint", {None: "CHECKPOINT"})
PRINCIPAL = Principal(kind="key", id="key_1", name="me", org_id="org_1", scopes=frozenset({"secrets:write"}))


@pytest.mark.clause("GW-31")
async def test_each_put_is_a_new_version(database: Database, master: Seal, secrets: GatewaySecrets) -> None:
    first = await put(database, master, PROJECT, "key")
    assert (first.uri, first.name, first.version) == ("secret://org_1/proj_1/key", "key", 1)
    second = await put(database, master, PROJECT, "key", "another-value")
    assert (second.version, second.created_at) == (2, first.created_at)
    assert second.updated_at >= first.updated_at
    assert await secrets.reveal(second.uri, use()) == "another-value"
    assert (await put(database, master, ORG, "key")).version == 1, "another secret of the same name"


@pytest.mark.clause("GW-31")
async def test_puts_at_the_same_time_get_versions_of_their_own(
    database: Database, master: Seal, secrets: GatewaySecrets
) -> None:
    done = await asyncio.gather(*(put(database, master, PROJECT, "key", f"value-{n}") for n in range(20)))
    assert sorted(each.version for each in done) == [*range(1, 21)]
    newest = max(range(20), key=lambda n: done[n].version)
    assert await secrets.reveal("secret://org_1/proj_1/key", use()) == f"value-{newest}"


async def test_a_new_value_lifts_no_restriction_by_itself(database: Database, master: Seal) -> None:
    assert (await put(database, master, ORG, "key", packages=["b/b", "a/a", "b/b"])).packages == (
        "a/a",
        "b/b",
    )
    assert (await put(database, master, ORG, "key", "new-value")).packages == ("a/a", "b/b")
    assert (await put(database, master, ORG, "key", packages=[])).packages == ()
    assert (await put(database, master, ORG, "key", packages=None)).packages is None


@pytest.mark.parametrize(
    ("name", "value", "packages", "pointers"),
    [
        ("..", "good", None, ["/name"]),
        ("a/b", "x", None, ["/name", "/value"]),
        ("key", "", None, ["/value"]),
        ("key", "x", None, ["/value"]),
        ("key", "x" * 65537, None, ["/value"]),
        ("key", "é" * 32769, None, ["/value"]),
        ("key", "surrogate \ud800", None, ["/value"]),
        ("key", "good", ["acme/tools", "no package", "x"], ["/packages/1", "/packages/2"]),
        ("key", "good", [f"a/p{n}" for n in range(101)], ["/packages"]),
    ],
)
async def test_what_is_wrong_is_named_and_nothing_is_stored(
    database: Database, master: Seal, name: str, value: str, packages, pointers: list[str]
) -> None:
    with pytest.raises(Problem) as caught:
        await put(database, master, PROJECT, name, value, packages=packages)
    assert caught.value.code == "invalid_request"
    assert [error.pointer for error in caught.value.errors] == pointers
    assert len(value) < 2 or value[:20] not in repr(caught.value.document)
    assert await database.read(SecretStore(master).page, PROJECT, 10) == []


async def test_the_largest_and_strangest_values_come_back(
    database: Database, master: Seal, secrets: GatewaySecrets
) -> None:
    for value in ("ab", "x" * 65536, "é" * 32768, "line\nline\n", "\0nul\0", "🙂🙂"):
        await put(database, master, PROJECT, "key", value)
        assert await secrets.reveal("secret://org_1/proj_1/key", use()) == value


@pytest.mark.clause("GW-31")
async def test_a_list_has_the_secrets_of_one_tenant_newest_first(database: Database, master: Seal) -> None:
    times = iter([1.0, 2.0, 2.0, 2.0, 5.0, 6.0, 7.0])
    store = SecretStore(master, now=lambda: next(times))
    for name in ("a", "b", "c", "d", "e"):
        await database.write(store.put, PROJECT, name, VALUE)
    await database.write(store.put, ORG, "of-the-org", VALUE)
    await database.write(store.put, PROJECT, "a", VALUE)
    for scope in (OTHER_PROJECT, OTHER_ORG, Scope("org_2", "proj_1")):
        await put(database, master, scope, "foreign")
    seen: list[SecretDocument] = []
    after = None
    while page := await database.read(store.page, PROJECT, 2, after):
        assert len(page) <= 2
        seen += page
        after = page[-1].created_at, page[-1].name
    assert [(each.name, each.version) for each in seen] == [("e", 1), ("d", 1), ("c", 1), ("b", 1), ("a", 2)]
    assert (seen[-1].created_at, seen[-1].updated_at) == (1.0, 7.0)
    assert [each.uri for each in await database.read(store.page, ORG, 9)] == ["secret://org_1/of-the-org"]


@pytest.mark.clause("GW-31")
async def test_a_mapped_secret_cannot_be_deleted(
    database: Database, master: Seal, secrets: GatewaySecrets
) -> None:
    made = await put(database, master, PROJECT, "key")
    asked: list[str] = []

    def by_seven(uri: str) -> Steps[list[str]]:
        asked.append(uri)
        yield from ()
        return [f"bind_{n}" for n in range(7)]

    store = SecretStore(master)
    with pytest.raises(Problem, match="bind_0, bind_1, bind_2, bind_3, bind_4, …") as caught:
        await database.write(store.delete, PROJECT, "key", by_seven)
    assert (caught.value.code, caught.value.status) == ("in_use", 409)
    assert asked == [made.uri]
    assert await secrets.reveal(made.uri, use()) == VALUE
    assert await database.write(store.delete, PROJECT, "key", unused) == made
    for scope, name in ((PROJECT, "key"), (OTHER_ORG, "key"), (PROJECT, "..")):
        with pytest.raises(Problem) as caught:
            await database.write(store.delete, scope, name, unused)
        assert caught.value.code == "not_found"
    assert (await put(database, master, PROJECT, "key")).version == 1


@pytest.mark.clause("GW-31")
async def test_a_change_its_audit_line_and_its_answer_hold_no_value(database: Database, master: Seal) -> None:
    changes, store = Changes(database, master), SecretStore(master)
    request = ChangeRequest(principal=PRINCIPAL, route="PUT /v1/secrets/{name}", digest=b"d", key="once")

    async def execute():
        return await changes.execute(
            request, "secrets.put", store.put, PROJECT, "key", VALUE,
            answer=SecretDocument, target=lambda document: document.uri, project_id="proj_1",
        )  # fmt: skip

    first, again = await execute(), await execute()
    assert (first.document, again.is_repeat) == (again.document, True)
    assert first.document.version == 1, "repeated requests store one version"
    (line,) = await audit_lines(database)
    assert (line["action"], line["target"], line["outcome"]) == ("secrets.put", first.document.uri, "done")
    assert VALUE not in repr(line) + repr(first) + repr(store)


@pytest.mark.clause("GW-31", "VAI-90")
async def test_the_files_of_sqlite_hold_no_value(tmp_path: Path, master: Seal) -> None:
    database = open_database(str(tmp_path))
    for n in range(3):
        await put(database, master, PROJECT, "findable-name", f"{VALUE}-{n}")
    await put(database, master, ORG, "large", VALUE * 2000)
    files = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert b"findable-name" in files["vai.db-wal"], "the search finds what is there"
    await export_database(database, str(tmp_path / "export"))
    await database.close()
    files["after"] = (tmp_path / "vai.db").read_bytes()
    assert b"findable-name" in files["after"]
    files["export"] = (tmp_path / "export").read_bytes()
    assert b"findable-name" in files["export"]
    assert not [name for name, content in files.items() if VALUE.encode() in content]


@pytest.mark.clause("GW-31", "VAI-90")
async def test_the_files_of_postgresql_hold_no_value(postgres: Server, master: Seal) -> None:
    database = open_database("unused", await postgres.create())
    await put(database, master, PROJECT, "findable-name-7", VALUE)
    await put(database, master, PROJECT, "findable-name-7", VALUE * 3)
    await database.write(CHECKPOINT())
    await database.close()
    found = {b"findable-name-7": 0, VALUE.encode(): 0}
    for path in (postgres.folder / "data").rglob("*"):
        if path.is_file():
            content = path.read_bytes()
            for text in found:
                found[text] += text in content
    assert found[b"findable-name-7"], "the search finds what is there"
    assert not found[VALUE.encode()]


async def test_two_equal_values_have_different_bytes(database: Database, master: Seal) -> None:
    for name in ("a", "b"):
        await put(database, master, PROJECT, name)
    rows = (await database.read(statement("all", {None: "SELECT data_key, sealed FROM secrets"})())).rows
    assert len({bytes(row[column]) for row in rows for column in ("data_key", "sealed")}) == 4
