"""Chains of blocks, written by the host for tools and compactors, which never write themselves.

The result of a tool is in its chain once for each tool_execution_id, however often the call was retried. A
compaction creates a new chain that names its source; the source is not changed.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import msgspec

from plughost.contracts.vai.request_bodies import EventSubject
from plughost.errors import InvalidSpec
from plughost.vai.bindings.binding import Scope
from plughost.vai.database.database import Database, Steps
from plughost.vai.database.statements import Row, load_statements
from plughost.vai.state import outbox
from plughost.vai.state.outbox import Outbox
from plughost.vai.state.tenant_columns import columns, from_row

_SQL = load_statements(__file__)
CREATE, FIND, LOCK, DERIVED = _SQL["create"], _SQL["find"], _SQL["lock"], _SQL["derived"]
INSERT_BLOCK, BLOCKS, LAST = _SQL["insert_block"], _SQL["blocks"], _SQL["last"]
IS_KNOWN, SIZE = _SQL["is_known"], _SQL["size"]

READ_TOGETHER = 64
"""Blocks that are read at a time: a page may be full before its limit of blocks."""


class Block(msgspec.Struct, frozen=True):
    """One block of a chain: a kind and a list of content items."""

    kind: str
    content: list[Any]
    more: Mapping[str, Any] = {}
    """The other members, such as `id`: a stored block keeps all of its members."""

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Block:
        """A block from its JSON object."""
        more = {name: value for name, value in document.items() if name not in ("kind", "content")}
        return cls(document["kind"], document["content"], more)

    @property
    def as_json(self) -> dict[str, Any]:
        """The block as a JSON object."""
        return {**self.more, "kind": self.kind, "content": self.content}


class Chain(msgspec.Struct, frozen=True, kw_only=True):
    """The head of a chain: its tenant and session and, of a derived chain, its source."""

    chain_id: str
    org_id: str
    project_id: str | None = None
    session_id: str | None = None
    source_chain_id: str | None = None
    compaction_id: str | None = None

    @property
    def scope(self) -> Scope:
        """The tenant of the chain."""
        return Scope(self.org_id, self.project_id)


class ChainPage(msgspec.Struct, frozen=True):
    """One page of a chain's blocks, for cursor pagination."""

    blocks: list[tuple[int, Block]]
    """Each with its number in the chain."""
    following: int | None
    """The cursor of the next page; None at the end."""


class ChainSink(Protocol):
    """Stores tool results and compactions in chains. Raises its own error or the system's when it cannot."""

    async def insert_tool_result(
        self, scope: Scope, chain_id: str, tool_execution_id: str, result: Any
    ) -> bool:
        """Appends the result of a tool, idempotently: False when it was there before. InvalidSpec for a chain
        of another tenant."""

    async def derive(
        self, scope: Scope, source_chain_id: str, compaction_id: str, seed_blocks: Sequence[Block]
    ) -> str:
        """Creates the chain of a compaction, idempotently, and returns its id.

        InvalidSpec for a source of another tenant.
        """


class Chains:
    """The chains in the database. InvalidSpec for an unknown chain; another tenant's counts as unknown."""

    def __init__(self, database: Database, outbox: Outbox) -> None:
        self._database = database
        self._outbox = outbox

    async def create(self, chain: Chain, blocks: Sequence[Block] = ()) -> None:
        """Creates a chain, with its first blocks."""
        await self._database.write(_create, chain, blocks)

    async def append(self, chain_id: str, blocks: Sequence[Block], once: str | None = None) -> int:
        """Appends blocks and returns the number of the last one. `once` is an idempotency key."""
        return await self._database.write(_append, chain_id, blocks, once)

    async def chain(self, chain_id: str) -> Chain:
        """The head of a chain."""
        return _chain(chain_id, (await self._database.read(FIND(chain_id=chain_id))).first())

    async def blocks(self, chain_id: str) -> list[Block]:
        """All blocks of a chain."""
        return [block for _, block in (await self.page(chain_id)).blocks]

    async def page(
        self, chain_id: str, after: int = 0, limit: int | None = None, most_bytes: int | None = None
    ) -> ChainPage:
        """The blocks after that number: at least one, if there is one."""
        return await self._database.read(_page, chain_id, after, limit, most_bytes)

    async def size(self, chain_id: str) -> int:
        """Bytes of all blocks of a chain."""
        return int((await self._database.read(SIZE(chain_id=chain_id))).value())

    async def insert_tool_result(
        self, scope: Scope, chain_id: str, tool_execution_id: str, result: Any
    ) -> bool:
        """Appends the result of a tool; see `ChainSink.insert_tool_result`."""
        block = Block(
            "tool_result", [{"type": "tool_result", "tool_execution_id": tool_execution_id, "result": result}]
        )
        return await self._database.write(_append_once, scope, chain_id, tool_execution_id, block)

    async def derived(self, compaction_id: str) -> str | None:
        """The id of the chain that a compaction created; None when there is none."""
        row = (await self._database.read(DERIVED(compaction_id=compaction_id))).first()
        return None if row is None else str(row["chain_id"])

    async def derive(
        self, scope: Scope, source_chain_id: str, compaction_id: str, seed_blocks: Sequence[Block]
    ) -> str:
        """Creates the chain of a compaction, and the first time an event for hooks; see
        `ChainSink.derive`."""
        try:
            return await self._database.write(_derive, scope, source_chain_id, compaction_id, seed_blocks)
        finally:
            self._outbox.announce()


def _create(chain: Chain, blocks: Sequence[Block]) -> Steps[None]:
    if not (yield CREATE(**columns(chain))).rows:
        raise InvalidSpec(f"the chain {chain.chain_id} already exists")
    yield INSERT_BLOCK.each(_block_columns(chain.chain_id, 0, blocks))


def _append(chain_id: str, blocks: Sequence[Block], once: str | None) -> Steps[int]:
    _chain(chain_id, (yield LOCK(chain_id=chain_id)).first())
    last: int = (yield LAST(chain_id=chain_id)).value()
    if once is not None and (yield IS_KNOWN(once=once)).rows:
        return last
    yield INSERT_BLOCK.each(_block_columns(chain_id, last, blocks, once))
    return last + len(blocks)


def _block_columns(
    chain_id: str, last: int, blocks: Sequence[Block], once: str | None = None
) -> list[dict[str, Any]]:
    return [
        {
            "chain_id": chain_id,
            "number": last + place,
            "kind": block.kind,
            "content": msgspec.json.encode(block.content).decode(),
            "more": msgspec.json.encode(block.more).decode(),
            "once": once if place == 1 else None,
        }
        for place, block in enumerate(blocks, 1)
    ]


def _chain(chain_id: str, row: Row | None, scope: Scope | None = None) -> Chain:
    chain = None if row is None else Chain(**from_row(row))
    if chain is None or scope not in (None, chain.scope):
        raise InvalidSpec(f"there is no chain {chain_id}")
    return chain


def _page(chain_id: str, after: int, limit: int | None, most_bytes: int | None) -> Steps[ChainPage]:
    _chain(chain_id, (yield FIND(chain_id=chain_id)).first())
    blocks: list[tuple[int, Block]] = []
    size = 0
    while rows := (yield BLOCKS(chain_id=chain_id, after=after, limit=READ_TOGETHER)).rows:
        for row in rows:
            size += len(row["content"]) + len(row["more"])
            if len(blocks) == limit or (blocks and most_bytes is not None and size > most_bytes):
                return ChainPage(blocks, after)
            content, more = msgspec.json.decode(row["content"]), msgspec.json.decode(row["more"])
            after = row["number"]
            blocks.append((after, Block(row["kind"], content, more)))
    return ChainPage(blocks, None)


def _append_once(scope: Scope, chain_id: str, once: str, block: Block) -> Steps[bool]:
    """Appends a block unless its key is known. The key includes the tenant, because tenants choose their own
    execution ids."""
    _chain(chain_id, (yield LOCK(chain_id=chain_id)).first(), scope)
    own = msgspec.json.encode([scope, once]).decode()
    last: int = (yield LAST(chain_id=chain_id)).value()
    return bool((yield INSERT_BLOCK.each(_block_columns(chain_id, last, [block], own))).rows)


def _derive(scope: Scope, source: str, compaction_id: str, seeds: Sequence[Block]) -> Steps[str]:
    origin = _chain(source, (yield LOCK(chain_id=source)).first(), scope)
    existing = (yield DERIVED(compaction_id=compaction_id)).first()
    if existing is not None:
        if existing["source_chain_id"] != source:
            raise InvalidSpec(f"the compaction {compaction_id} already exists, for another chain")
        return str(existing["chain_id"])
    derived = Chain(
        chain_id=f"ch_{secrets.token_hex(8)}",
        org_id=origin.org_id,
        project_id=origin.project_id,
        session_id=origin.session_id,
        source_chain_id=source,
        compaction_id=compaction_id,
    )
    yield from _create(derived, seeds)
    summary = {"compaction_id": compaction_id, "derived_chain_id": derived.chain_id}
    compacted = outbox.event("chain.compacted", EventSubject("chain", source), summary)
    yield outbox.insert(origin.scope, compacted)
    return derived.chain_id
