"""Who may map which secret to a slot of which package."""

from __future__ import annotations

import asyncio

import pytest

from plughost.gateway.auth.principal import Principal
from plughost.gateway.problems import FieldError, Problem
from plughost.gateway.secrets.mapping import check_mapping
from plughost.gateway.secrets.secret_store import SecretStore
from plughost.vai.bindings.binding import Scope
from plughost.vai.database.database import Database, Steps
from plughost.vai.database.sealing import Seal
from plughost.vai.database.statements import statement
from tests.gateway.secrets.conftest import ORG, OTHER_ORG, OTHER_PROJECT, PROJECT, put

INSERT = statement("insert", {None: "INSERT INTO meta (name, value) VALUES (:name, '')"})
FIND = statement("find", {None: "SELECT name FROM meta WHERE name = :name"})


def principal(*scopes: str) -> Principal:
    return Principal(kind="key", id="k", name="me", org_id="org_1", scopes=frozenset(scopes))


async def check(
    database: Database,
    mapped: dict[str, str],
    scope: Scope = PROJECT,
    who: Principal | None = None,
    hold: bool = False,
) -> list[FieldError]:
    run = database.write if hold else database.read
    return await run(check_mapping, who or principal("secrets:use"), scope, "acme/tools", mapped, hold=hold)


@pytest.mark.clause("GW-31")
@pytest.mark.parametrize("hold", [False, True])
async def test_each_slot_that_may_not_be_mapped_is_named(
    database: Database, master: Seal, hold: bool
) -> None:
    await put(database, master, PROJECT, "own")
    await put(database, master, ORG, "shared", packages=["acme/tools"])
    await put(database, master, ORG, "restricted", packages=["acme/others"])
    await put(database, master, ORG, "closed", packages=[])
    mapped = {
        "a": "secret://org_1/proj_1/own",
        "b": "secret://org_1/shared",
        "c": "secret://org_1/restricted",
        "d/~": "secret://org_1/unknown",
        "e": "https://org_1/x",
        "f": "secret://org_1/closed",
    }
    assert await check(database, mapped, hold=hold) == [
        FieldError(
            "/secrets/c", "the package acme/tools is not among those that may have secret://org_1/restricted"
        ),
        FieldError("/secrets/d~1~0", "there is no secret secret://org_1/unknown"),
        FieldError("/secrets/e", "write secret://org/name or secret://org/project/name"),
        FieldError(
            "/secrets/f", "the package acme/tools is not among those that may have secret://org_1/closed"
        ),
    ]
    assert await check(database, {}, hold=hold) == []


@pytest.mark.clause("GW-31")
async def test_the_secret_of_another_tenant_is_simply_unknown(database: Database, master: Seal) -> None:
    tenants = [OTHER_ORG, OTHER_PROJECT, Scope("org_2", "proj_1")]
    for tenant in tenants:
        await put(database, master, tenant, "key", packages=[])
    for uri in ("secret://org_2/{}", "secret://org_1/proj_2/{}", "secret://org_2/proj_1/{}"):
        (there,) = await check(database, {"s": uri.format("key")})
        (nowhere,) = await check(database, {"s": uri.format("kez")})
        assert there.message.replace("key", "kez") == nowhere.message
    await put(database, master, PROJECT, "key")
    assert await check(database, {"s": "secret://org_1/proj_1/key"}) == []
    assert await check(database, {"s": "secret://org_1/proj_1/key"}, scope=ORG), "all projects could use it"


@pytest.mark.clause("GW-31")
async def test_mapping_needs_the_scope_secrets_use(database: Database, master: Seal) -> None:
    await put(database, master, PROJECT, "key")
    mapped = {"a": "secret://org_1/proj_1/key", "b": "secret://org_1/unknown"}
    errors = await check(database, mapped, who=principal("secrets:write", "secrets:read", "bindings:write"))
    assert errors == [
        FieldError(f"/secrets/{slot}", "mapping a secret needs the scope secrets:use") for slot in ("a", "b")
    ], "nobody without the scope learns which secrets exist"
    assert await check(database, {"a": mapped["a"]}, who=principal("admin")) == []
    assert await check(database, {}, who=principal()) == []


@pytest.mark.clause("GW-31")
async def test_a_binding_and_a_deletion_at_the_same_time_do_not_miss_each_other(
    database: Database, master: Seal
) -> None:
    """Either the binding is stored and the secret stays, or the secret is gone and the binding is refused."""

    def bind(name: str, uri: str) -> Steps[bool]:
        if (yield from check_mapping(principal("admin"), PROJECT, "acme/tools", {"s": uri}, hold=True)):
            return False
        yield INSERT(name=name)
        return True

    async def delete(name: str) -> bool:
        def in_use(uri: str) -> Steps[list[str]]:
            return [row["name"] for row in (yield FIND(name=name)).rows]

        try:
            await database.write(SecretStore(master).delete, PROJECT, name, in_use)
        except Problem as problem:
            return problem.code != "in_use"
        return True

    names = [f"key-{n}" for n in range(40)]
    for name in names:
        await put(database, master, PROJECT, name)
    outcomes = set()
    for n, name in enumerate(names):
        both = [database.write(bind, name, f"secret://org_1/proj_1/{name}"), delete(name)]
        outcomes.add(tuple(sorted(await asyncio.gather(*(both if n % 2 else both[::-1])))))
    assert outcomes == {(False, True)}
