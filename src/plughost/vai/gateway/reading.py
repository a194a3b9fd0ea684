"""Sessions and chains, page by page, and blocks that a harness adds to a chain."""

from __future__ import annotations

from typing import Annotated

import msgspec

from plughost.contracts.vai.results import SeedBlock, check_blocks
from plughost.vai.gateway.guest import Guest
from plughost.vai.gateway.messages import HttpAnswer, HttpProblem, RequestHead, number, read
from plughost.vai.gateway.tenancy import its_own, named
from plughost.vai.state.chains import Block
from plughost.vai.state.state import TenantState

BYTES_PER_TOKEN = 4
"""A rough estimate; compactors count for themselves."""
PAGE = 100
MOST_A_PAGE = 1000
MOST_BYTES = 4 << 20
"""Of the blocks of a page that has more than one."""
HOSTS_OWN = frozenset({"tool_result"})
"""Blocks that the host alone writes, once for each execution of a tool."""


class NewBlocks(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The request body that appends blocks to a chain."""

    blocks: Annotated[list[SeedBlock], msgspec.Meta(min_length=1)]

    def __post_init__(self) -> None:
        check_blocks(self.blocks)


class Reading:
    """Handlers that read sessions and chains and append blocks."""

    def __init__(self, state: TenantState) -> None:
        self._state = state

    async def session(self, guest: Guest, session_id: str, head: RequestHead, body: bytes) -> HttpAnswer:
        session = await its_own(guest, self._state.sessions.session(session_id))
        limit = number(head.query, "limit", PAGE, MOST_A_PAGE, 1)
        chains = await self._state.sessions.chain_ids(session, head.query.get("after", ""), limit)
        following = chains[-1] if chains and len(chains) == limit else None
        return HttpAnswer(200, {**msgspec.to_builtins(session), "chain_ids": chains, "next": following})

    async def chain(self, guest: Guest, chain_id: str, head: RequestHead, body: bytes) -> HttpAnswer:
        chain = await its_own(guest, self._state.chains.chain(chain_id))
        after = number(head.query, "after", 0, 10**9)
        limit = number(head.query, "limit", PAGE, MOST_A_PAGE, 1)
        page = await self._state.chains.page(chain_id, after, limit, MOST_BYTES)
        blocks = [{**block.as_json, "number": place} for place, block in page.blocks]
        estimate = await self._state.chains.size(chain_id) // BYTES_PER_TOKEN
        described = {**msgspec.to_builtins(chain), "token_estimate": estimate}
        return HttpAnswer(200, {**described, "blocks": blocks, "next": page.following})

    async def append(self, guest: Guest, chain_id: str, head: RequestHead, body: bytes) -> HttpAnswer:
        asked = read(body, NewBlocks)
        await its_own(guest, self._state.chains.chain(chain_id))
        if forged := HOSTS_OWN & {block["kind"] for block in asked.blocks}:
            raise HttpProblem(403, "hosts_own", f"{', '.join(forged)} blocks can be written only by the host")
        guest.spend(len(body))
        blocks = [
            Block.from_json(block) for block in await guest.run.redactor.redact_json_async(asked.blocks)
        ]
        once = named(guest, "append", head.key) if head.key else None
        last = await self._state.chains.append(chain_id, blocks, once)
        return HttpAnswer(201, {"chain_id": chain_id, "last": last})
