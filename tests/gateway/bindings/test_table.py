"""Bindings in the database: every change is a revision, no writer loses one, and shares sum to 100."""

from __future__ import annotations

import asyncio
import itertools

import pytest

from plughost.gateway.bindings import lookups, table
from plughost.gateway.bindings.documents import BindingContent, BindingDocument
from plughost.gateway.bindings.table import Author
from plughost.gateway.problems import FieldError, Problem
from plughost.vai.bindings.binding import BindingPolicy, Scope
from plughost.vai.database.database import Database, Steps
from plughost.vai.database.statements import parse_statements, statement
from tests.gateway.bindings.support import ANNA, ORG, PROJECT, create, draft, get, patch, percents, share
from tests.support import ROOT
from tests.vai.database.test_plans import plan
from tests.vai.database.test_statements import prepare

OTHERS = [Scope("org_2"), Scope("org_1", "proj_2"), Scope("org_2", "proj_1")]


async def refused(database: Database, code: str, unit: object, *args: object, **more: object) -> Problem:
    with pytest.raises(Problem) as caught:
        await database.write(unit, *args, **more)  # type: ignore[call-overload]
    assert caught.value.code == code
    return caught.value


async def history(database: Database, binding: BindingDocument) -> list[tuple[int, str, str]]:
    found = await database.read(lookups.revisions, ORG, binding.binding_id, None, 100)
    return [(each.revision, each.actor, each.action) for each in found.items]


async def test_every_statement_is_prepared_on_both(database: Database) -> None:
    await database.open()
    for file in sorted((ROOT / "src/plughost/gateway/bindings").glob("*.sql")):
        for each in parse_statements(file.read_text()).values():
            await prepare(database, each)


@pytest.mark.clause("GW-26", "VAI-02", "VAI-60")
async def test_a_binding_is_stored_as_it_was_drafted(database: Database) -> None:
    policy = BindingPolicy(timeout_ms=500, scopes=frozenset({"runs:read", "chains:read"}))
    made = await create(
        database, config={"site": "é\0x"}, secrets={"token": "secret://org_1/t"}, policy=policy
    )
    assert made.binding_id.startswith("bind_")
    assert (made.scope, made.status, made.traffic_percent, made.revision) == (PROJECT, "active", 100, 1)
    assert (made.config, made.secrets, made.policy) == (
        {"site": "é\0x"},
        {"token": "secret://org_1/t"},
        policy,
    )
    assert await get(database, made) == made


async def test_another_tenants_binding_does_not_exist(database: Database) -> None:
    made = await create(database)
    for viewer in OTHERS:
        for unit, *args in (
            (lookups.get,),
            (table.patch, {}, ANNA),
            (table.delete, ANNA),
            (table.roll_back, 1, ANNA),
            (lookups.revisions, None, 10),
        ):
            await refused(database, "not_found", unit, viewer, made.binding_id, *args)
        assert (await database.read(lookups.page, viewer, {}, None, 10)).items == ()
    assert (await database.read(lookups.get, PROJECT, made.binding_id)) == made


async def test_a_version_is_bound_once_in_a_scope(database: Database) -> None:
    made = await create(database)
    problem = await refused(database, "conflict", table.create, PROJECT, draft(), ANNA)
    assert made.binding_id in problem.detail
    await create(database, scope=ORG)
    await create(database, scope=Scope("org_1", "proj_2"))


@pytest.mark.clause("GW-27")
async def test_every_change_is_a_revision_with_its_author(database: Database) -> None:
    made = await create(database, config={"a": 1})
    await database.write(table.patch, ORG, made.binding_id, {"config": {"b": 2}}, Author("jwt:ben"))
    await patch(database, made, {"status": "disabled"})
    assert await history(database, made) == [
        (3, "key:anna", "patch"),
        (2, "jwt:ben", "patch"),
        (1, "key:anna", "create"),
    ]
    second = await database.read(lookups.get_revision, ORG, made.binding_id, 2)
    assert (second.binding.config, second.binding.status) == ({"a": 1, "b": 2}, "active")
    await database.write(table.delete, ORG, made.binding_id, ANNA)
    assert (await history(database, made))[0] == (4, "key:anna", "delete")
    await refused(database, "not_found", lookups.get, ORG, made.binding_id)


@pytest.mark.clause("GW-27")
async def test_revisions_come_in_pages(database: Database) -> None:
    made = await create(database)
    for number in range(6):
        await patch(database, made, {"config": {"n": number}})
    seen, position = [], None
    while True:
        found = await database.read(lookups.revisions, ORG, made.binding_id, position, 3)
        seen += [each.revision for each in found.items]
        if (position := found.position) is None:
            break
    assert seen == [7, 6, 5, 4, 3, 2, 1]


@pytest.mark.clause("GW-27")
async def test_a_rollback_restores_an_earlier_revision_as_a_new_one(database: Database) -> None:
    policy = BindingPolicy(timeout_ms=9)
    made = await create(database, config={"a": {"b": 1}}, policy=policy)
    await patch(database, made, {"config": {"a": None, "c": True}, "policy": None, "status": "disabled"})
    back = await database.write(table.roll_back, ORG, made.binding_id, 1, ANNA)
    assert (back.config, back.policy, back.status, back.revision) == ({"a": {"b": 1}}, policy, "active", 3)
    assert (await history(database, made))[0] == (3, "key:anna", "rollback")
    await refused(database, "not_found", table.roll_back, ORG, made.binding_id, 4, ANNA)
    await refused(database, "not_found", table.roll_back, ORG, made.binding_id, 2**40, ANNA)


async def test_a_patch_without_effect_makes_no_revision(database: Database) -> None:
    made = await create(database, config={"on": 1})
    assert await patch(database, made, {"config": {"on": 1}, "rollout": {"traffic_percent": 100}}) == made
    changed = await patch(database, made, {"config": {"on": True}})
    assert (changed.revision, changed.config["on"]) == (2, True)
    assert changed.config["on"] is True


@pytest.mark.clause("GW-08")
async def test_a_stale_patch_changes_nothing(database: Database) -> None:
    made = await create(database)
    await patch(database, made, {"config": {"a": 1}}, expected=1)
    for unit, *args in ((table.patch, {"config": {"a": 2}}), (table.delete,), (table.roll_back, 1)):
        await refused(database, "stale", unit, ORG, made.binding_id, *args, ANNA, expected=1)
    assert (await get(database, made)).config == {"a": 1}


@pytest.mark.clause("GW-08")
async def test_concurrent_patches_lose_no_change(database: Database) -> None:
    made = await create(database)
    await asyncio.gather(*(patch(database, made, {"config": {f"k{n}": n}}) for n in range(30)))
    after = await get(database, made)
    assert after.config == {f"k{n}": n for n in range(30)}
    assert after.revision == 31


@pytest.mark.clause("GW-08")
async def test_of_concurrent_patches_with_one_etag_one_wins(database: Database) -> None:
    made = await create(database)
    results = await asyncio.gather(
        *(patch(database, made, {"config": {"k": n}}, expected=1) for n in range(10)), return_exceptions=True
    )
    assert sum(isinstance(each, BindingDocument) for each in results) == 1
    assert {each.code for each in results if isinstance(each, Problem)} == {"stale"}


@pytest.mark.clause("GW-28", "VAI-62")
async def test_a_second_version_starts_at_zero_and_takes_its_share_from_the_first(database: Database) -> None:
    first, second = await create(database), await create(database, "2.0.0")
    assert await percents(database, first, second) == [100, 0]
    await patch(database, second, share(30))
    assert await percents(database, first, second) == [70, 30]
    await patch(database, first, share(40))
    assert await percents(database, first, second) == [40, 60]
    assert (await history(database, first))[1] == (2, "key:anna", "rebalance")


@pytest.mark.clause("GW-28", "VAI-62")
async def test_a_third_active_version_is_refused(database: Database) -> None:
    await create(database)
    await create(database, "2.0.0")
    await refused(database, "conflict", table.create, PROJECT, draft("3.0.0"), ANNA)
    third = await create(database, "3.0.0", status="disabled")
    await refused(database, "conflict", table.patch, ORG, third.binding_id, {"status": "active"}, ANNA)


@pytest.mark.clause("GW-28")
async def test_concurrent_creates_make_two_active_versions_at_most(database: Database) -> None:
    results = await asyncio.gather(
        *(create(database, f"{n}.0.0") for n in range(1, 7)), return_exceptions=True
    )
    made = [each for each in results if isinstance(each, BindingDocument)]
    assert len(made) == 2
    assert sorted(await percents(database, *made)) == [0, 100]


@pytest.mark.clause("GW-28", "VAI-63")
@pytest.mark.parametrize("how", ["disable", "delete", "rollback"])
async def test_the_other_version_gets_everything_when_one_ends(database: Database, how: str) -> None:
    first, second = await create(database), await create(database, "2.0.0")
    await patch(database, second, share(30))
    if how == "disable":
        assert (await patch(database, second, {"status": "disabled"})).traffic_percent == 0
    elif how == "delete":
        await database.write(table.delete, ORG, second.binding_id, ANNA)
    else:
        assert (await database.write(table.roll_back, ORG, second.binding_id, 1, ANNA)).traffic_percent == 0
    assert await percents(database, first) == [100]


@pytest.mark.clause("GW-28")
async def test_an_enabled_version_starts_at_zero_or_at_the_share_in_the_same_patch(
    database: Database,
) -> None:
    first, second = await create(database), await create(database, "2.0.0", status="disabled")
    assert (await patch(database, second, {"status": "active"})).traffic_percent == 0
    await patch(database, second, {"status": "disabled"})
    await patch(database, second, {"status": "active", **share(25)})
    assert await percents(database, first, second) == [75, 25]


@pytest.mark.clause("GW-26", "GW-28")
async def test_a_share_that_cannot_sum_to_100_is_refused_with_its_place(database: Database) -> None:
    only = await create(database)
    second = await create(database, "2.0.0", status="disabled")
    for binding_id, body in (
        (only.binding_id, share(99)),
        (second.binding_id, share(1)),
        (only.binding_id, share(101)),
        (only.binding_id, share(-1)),
        (only.binding_id, {"rollout": {"traffic_percent": 50.0}}),
        (only.binding_id, {"rollout": {"traffic_percent": True}}),
    ):
        problem = await refused(database, "invalid_request", table.patch, ORG, binding_id, body, ANNA)
        assert [each.pointer for each in problem.errors] == ["/rollout/traffic_percent"]
    problem = await refused(
        database, "invalid_request", table.create, PROJECT, draft("3.0.0", traffic_percent=50), ANNA
    )
    assert problem.errors[0].message == "a second version starts at 0 percent; raise its share later"
    assert await percents(database, only, second) == [100, 0]


async def test_scopes_have_rollouts_of_their_own(database: Database) -> None:
    own, whole = await create(database), await create(database, "2.0.0", scope=ORG)
    assert await percents(database, own, whole) == [100, 100]


async def test_a_rollback_whose_other_version_is_gone_serves_everything(database: Database) -> None:
    first, second = await create(database), await create(database, "2.0.0")
    await patch(database, second, share(30))
    await database.write(table.delete, ORG, first.binding_id, ANNA)
    back = await database.write(table.roll_back, ORG, second.binding_id, 2, ANNA)
    assert back.traffic_percent == 100


@pytest.mark.clause("GW-06")
async def test_lists_are_newest_first_and_skip_nothing_while_bindings_are_made(database: Database) -> None:
    made = [await create(database, package=f"acme/p{n}") for n in range(7)]
    seen, position = [], None
    for number in itertools.count():
        found = await database.read(lookups.page, ORG, {}, position, 3)
        seen += [each.binding_id for each in found.items]
        await create(database, package=f"acme/later{number}")
        if (position := found.position) is None:
            break
    assert seen == [each.binding_id for each in reversed(made)]


@pytest.mark.clause("GW-06")
async def test_lists_are_filtered(database: Database) -> None:
    one = await create(database)
    two = await create(database, "2.0.0", status="disabled")
    three = await create(database, scope=ORG, package="acme/wiki", export="read")

    async def found(viewer: Scope = ORG, **filters: str) -> list[str]:
        return [
            each.binding_id for each in (await database.read(lookups.page, viewer, filters, None, 9)).items
        ]

    ids = [each.binding_id for each in (one, two, three)]
    assert await found() == ids[::-1]
    assert await found(project="proj_1") == ids[1::-1]
    assert await found(project="") == ids[2:]
    assert await found(package="acme/jira", version="2.0.0") == ids[1:2]
    assert await found(export="read") == ids[2:]
    assert await found(status="active") == [ids[2], ids[0]]
    assert await found(PROJECT) == ids[1::-1]
    assert await found(PROJECT, project="proj_2") == []
    await refused(database, "unknown_filter", lookups.page, ORG, {"before": "1"}, None, 9)
    await refused(database, "invalid_request", lookups.page, ORG, {"version": "1.0.0"}, None, 9)


async def test_every_list_uses_an_index(database: Database) -> None:
    insert = statement(
        "fill",
        {
            "sqlite": """INSERT INTO bindings SELECT 'b' || value, value, 'o' || value % 40, 'p' || value % 7,
                'k' || value % 300, '1', 'e' || value % 200, '{}', '{}', '{}',
                CASE WHEN value % 9 = 0 THEN 'disabled' ELSE 'active' END, 0, 1, 1, 1.0, 1.0
                FROM (WITH RECURSIVE n(value) AS (SELECT 1 UNION ALL SELECT value + 1 FROM n LIMIT 20000)
                SELECT value FROM n) WHERE value < :most ON CONFLICT DO NOTHING""",
            "postgresql": """INSERT INTO bindings SELECT 'b' || value, value, 'o' || value % 40, 'p' || value % 7,
                'k' || value % 300, '1', 'e' || value % 200, '{}', '{}', '{}',
                CASE WHEN value % 9 = 0 THEN 'disabled' ELSE 'active' END, 0, 1, 1, 1.0, 1.0
                FROM generate_series(1, 20000) AS n(value) WHERE value < :most ON CONFLICT DO NOTHING""",
        },
    )
    await database.write(insert(most=50_000))
    await database.write(statement("analyze", {None: "ANALYZE"})())
    filters = {"project": "p1", "package": "k1", "export": "e1", "status": "active", "before": 9000}
    for size in range(3):
        for names in itertools.combinations(filters, size):
            query = lookups.LIST.query({"org": "o1", **{name: filters[name] for name in names}}, 50)
            told = await plan(database, query)
            assert "Seq Scan" not in told, told
            assert "SCAN bindings" not in told.replace("USING", ""), told
            assert "TEMP B-TREE" not in told, told


@pytest.mark.clause("VAI-65")
async def test_who_uses_a_secret_or_a_version_is_known(database: Database) -> None:
    one = await create(database, secrets={"token": "secret://org_1/t"})
    two = await create(database, "2.0.0", status="disabled")
    assert await database.read(lookups.mapping_secret, "org_1", "secret://org_1/t") == [one.binding_id]
    assert await database.read(lookups.mapping_secret, "org_2", "secret://org_1/t") == []
    assert await database.read(lookups.binding_version, "org_1", "acme/jira", "2.0.0") == [two.binding_id]
    assert await database.read(lookups.binding_version, "org_1", "acme/jira", "2.0.0", active_only=True) == []
    assert await database.read(lookups.binding_version, "org_2", "acme/jira", "2.0.0") == []


async def test_a_check_within_the_transaction_refuses_the_change(database: Database) -> None:
    calls: list[tuple[Scope, str, dict[str, str]]] = []

    def check(scope: Scope, package_id: str, content: BindingContent) -> Steps[list[FieldError]]:
        calls.append((scope, package_id, content.secrets))
        found = yield statement("one", {None: "SELECT 1 AS one"})()
        return [FieldError("/secrets/t", "no")] if found.value() and "t" in content.secrets else []

    problem = await refused(
        database, "invalid_request", table.create, PROJECT, draft(secrets={"t": "x"}), ANNA, check=check
    )
    assert [each.pointer for each in problem.errors] == ["/secrets/t"]
    made = await database.write(table.create, PROJECT, draft(), ANNA, check=check)
    body = {"secrets": {"t": "y"}}
    await refused(database, "invalid_request", table.patch, ORG, made.binding_id, body, ANNA, check=check)
    await patch(database, made, body)
    await patch(database, made, {"secrets": None})
    await refused(database, "invalid_request", table.roll_back, ORG, made.binding_id, 2, ANNA, check=check)
    assert (await get(database, made)).revision == 3
    assert calls == [(PROJECT, "acme/jira", each) for each in ({"t": "x"}, {}, {"t": "y"}, {"t": "y"})]
