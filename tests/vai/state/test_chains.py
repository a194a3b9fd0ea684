"""Chains: what the host writes for tools and compactors."""

import asyncio
from functools import partial
from pathlib import Path

import pytest

from plughost.errors import InvalidSpec
from plughost.vai.bindings.binding import Scope
from plughost.vai.database.database import Database
from plughost.vai.database.open_database import open_database
from plughost.vai.state.chains import Block, Chain, Chains
from plughost.vai.state.state import TenantState

SYSTEM = Block("system", [{"type": "text", "text": "You are a coding agent."}])
SOURCE = Chain(chain_id="ch_1", org_id="org_1", project_id="proj_1", session_id="sess_1")
OTHER = Chain(chain_id="ch_2", org_id="org_2", project_id="proj_1")


@pytest.fixture
async def chains(database: Database) -> Chains:
    chains = TenantState(database).chains
    await chains.create(SOURCE, [SYSTEM])
    return chains


@pytest.mark.clause("VAI-51")
async def test_a_tools_result_is_in_its_chain_once(chains: Chains) -> None:
    results = [
        chains.insert_tool_result(SOURCE.scope, "ch_1", "toolx_1", {"content": [{"n": n}]}) for n in range(8)
    ]
    assert sorted(await asyncio.gather(*results)) == [False] * 7 + [True]
    assert await chains.insert_tool_result(SOURCE.scope, "ch_1", "toolx_2", {"content": []})
    kinds = [block.kind for block in await chains.blocks("ch_1")]
    assert kinds == ["system", "tool_result", "tool_result"]


@pytest.mark.clause("VAI-56", "VAI-05")
async def test_a_compaction_makes_a_chain_that_names_its_source_and_changes_nothing_else(
    chains: Chains,
) -> None:
    seeds = [SYSTEM, Block("input", [{"type": "text", "text": "Summary of prior work."}])]
    before = await chains.blocks("ch_1")
    derived = await chains.derive(SOURCE.scope, "ch_1", "cmp_1", seeds)
    assert await chains.derive(SOURCE.scope, "ch_1", "cmp_1", seeds) == derived
    told = await chains.chain(derived)
    assert (told.source_chain_id, told.compaction_id, told.org_id, told.session_id) == (
        "ch_1", "cmp_1", "org_1", "sess_1",
    )  # fmt: skip
    assert await chains.blocks(derived) == seeds
    assert await chains.blocks("ch_1") == before
    assert await chains.derive(SOURCE.scope, "ch_1", "cmp_2", seeds) != derived


@pytest.mark.clause("VAI-51")
async def test_two_tenants_may_use_the_same_names(chains: Chains) -> None:
    """Neither learns of the other's chain, nor keeps its results out."""
    await chains.create(OTHER)
    for chain in (SOURCE, OTHER):
        insert = partial(chains.insert_tool_result, chain.scope, chain.chain_id, "toolx_1")
        assert await insert({"of": chain.chain_id})
        assert not await insert({"of": chain.chain_id})
    assert [block.content[0]["result"] for block in await chains.blocks("ch_2")] == [{"of": "ch_2"}]
    await chains.derive(SOURCE.scope, "ch_1", "cmp_1", [SYSTEM])
    with pytest.raises(InvalidSpec, match="cmp_1 already exists, for another chain"):
        await chains.derive(OTHER.scope, "ch_2", "cmp_1", [SYSTEM])


@pytest.mark.clause("VAI-56")
async def test_nobody_writes_for_another_tenants_chain(chains: Chains) -> None:
    await chains.derive(SOURCE.scope, "ch_1", "cmp_1", [])
    for scope in (OTHER.scope, Scope("org_1"), Scope("org_1", "proj_2")):
        with pytest.raises(InvalidSpec, match="there is no chain ch_1"):
            await chains.derive(scope, "ch_1", "cmp_1", [SYSTEM])
        with pytest.raises(InvalidSpec, match="there is no chain ch_1"):
            await chains.insert_tool_result(scope, "ch_1", "toolx_1", {})
    assert await chains.blocks("ch_1") == [SYSTEM]


async def test_a_block_keeps_all_its_members(chains: Chains) -> None:
    task = Block.from_json({"kind": "task", "content": [], "id": "t1", "status": "open"})
    await chains.append("ch_1", [task])
    assert (await chains.blocks("ch_1"))[-1].as_json == task.as_json
    assert task.as_json == {"kind": "task", "content": [], "id": "t1", "status": "open"}


async def test_a_chain_that_is_not_there(chains: Chains) -> None:
    for use in (
        chains.chain("ch_9"),
        chains.blocks("ch_9"),
        chains.append("ch_9", [SYSTEM]),
        chains.derive(SOURCE.scope, "ch_9", "cmp_9", []),
        chains.insert_tool_result(SOURCE.scope, "ch_9", "toolx_9", {}),
    ):
        with pytest.raises(InvalidSpec, match="ch_9"):
            await use
    with pytest.raises(InvalidSpec, match="already"):
        await chains.create(SOURCE)


async def test_what_was_written_is_there_for_the_next_host(
    chains: Chains, tmp_path: Path, database_url: str | None
) -> None:
    await chains.append("ch_1", [Block("output", [{"type": "text", "text": "done"}])])
    database = open_database(str(tmp_path), database_url)
    assert [block.kind for block in await TenantState(database).chains.blocks("ch_1")] == ["system", "output"]
    await database.close()


async def test_appends_at_once_get_numbers_of_their_own(chains: Chains) -> None:
    await asyncio.gather(*(chains.append("ch_1", [Block("output", [n])] * 2) for n in range(20)))
    page = await chains.page("ch_1")
    assert [number for number, _ in page.blocks] == [*range(1, 42)]
    firsts = [block.content for _, block in page.blocks[1::2]]
    assert firsts == [block.content for _, block in page.blocks[2::2]], "those of one append stay together"


async def test_a_chain_of_many_blocks_comes_in_pages(chains: Chains) -> None:
    await chains.append("ch_1", [Block("output", ["x" * 100])] * 200)
    page = await chains.page("ch_1", after=1, limit=150)
    assert (len(page.blocks), page.following) == (150, 151)
    page = await chains.page("ch_1", after=151)
    assert ([number for number, _ in page.blocks], page.following) == ([*range(152, 202)], None)
    page = await chains.page("ch_1", after=1, most_bytes=1000)
    assert 5 < len(page.blocks) < 10
    assert page.following == page.blocks[-1][0]
    assert await chains.size("ch_1") > 200 * 100
