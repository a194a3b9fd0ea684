"""Chains of blocks, written by the host for tools and compactors, which never write themselves.

The result of a tool is in its chain once for each tool_execution_id, however often the call was retried. A
compaction creates a new chain that names its source; the source is not changed.
"""

from __future__ import annotations

import secrets
import sqlite3
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import msgspec

from plughost.contracts.vai.request_bodies import EventSubject
from plughost.errors import InvalidSpec
from plughost.vai.bindings.binding import Scope
from plughost.vai.sqlite import SqliteDatabase
from plughost.vai.state import outbox
from plughost.vai.state.outbox import Outbox

TABLES = (
    """CREATE TABLE IF NOT EXISTS chains (chain_id PRIMARY KEY, org_id NOT NULL, project_id, session_id,
        source_chain_id, compaction_id UNIQUE) WITHOUT ROWID""",
    """CREATE TABLE IF NOT EXISTS blocks (chain_id NOT NULL, number INTEGER NOT NULL, kind NOT NULL,
        content NOT NULL, once UNIQUE, PRIMARY KEY (chain_id, number)) WITHOUT ROWID""",
    "ALTER TABLE blocks ADD COLUMN more NOT NULL DEFAULT '{}'",
)
CREATE = "INSERT INTO chains VALUES (?, ?, ?, ?, ?, ?)"
FIND = "SELECT * FROM chains WHERE chain_id = ?"
DERIVED = "SELECT chain_id, source_chain_id FROM chains WHERE compaction_id = ?"
INSERT = """INSERT INTO blocks
    SELECT ?1, coalesce(max(number), 0) + 1, ?2, ?3, ?4, ?5 FROM blocks WHERE chain_id = ?1"""
PAGE = "SELECT number, kind, content, more FROM blocks WHERE chain_id = ? AND number > ? ORDER BY number"
LAST = "SELECT coalesce(max(number), 0) FROM blocks WHERE chain_id = ?"
EXISTS = "SELECT 1 FROM blocks WHERE once = ?"
SIZE = "SELECT coalesce(sum(length(content) + length(more) - 2), 0) FROM blocks WHERE chain_id = ?"


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
    """The chains in the state database. InvalidSpec for an unknown chain; another tenant's counts as
    unknown."""

    def __init__(self, database: SqliteDatabase, outbox: Outbox) -> None:
        self._database = database
        self._outbox = outbox

    async def create(self, chain: Chain, blocks: Sequence[Block] = ()) -> None:
        """Creates a chain, with its first blocks."""
        await self._database.do(lambda connection: _create(connection, chain, blocks))

    async def append(self, chain_id: str, blocks: Sequence[Block], once: str | None = None) -> int:
        """Appends blocks and returns the number of the last one. `once` is an idempotency key."""
        return await self._database.do(lambda connection: _append(connection, chain_id, blocks, once))

    async def chain(self, chain_id: str) -> Chain:
        """The head of a chain."""
        return await self._database.do(lambda connection: _chain(connection, chain_id))

    async def blocks(self, chain_id: str) -> list[Block]:
        """All blocks of a chain."""
        return [block for _, block in (await self.page(chain_id)).blocks]

    async def page(
        self, chain_id: str, after: int = 0, limit: int | None = None, most_bytes: int | None = None
    ) -> ChainPage:
        """The blocks after that number: at least one, if there is one."""
        return await self._database.do(
            lambda connection: _page(connection, chain_id, after, limit, most_bytes)
        )

    async def size(self, chain_id: str) -> int:
        """Bytes of all blocks of a chain."""
        return await self._database.do(
            lambda connection: int(connection.execute(SIZE, (chain_id,)).fetchone()[0])
        )

    async def insert_tool_result(
        self, scope: Scope, chain_id: str, tool_execution_id: str, result: Any
    ) -> bool:
        """Appends the result of a tool; see `ChainSink.insert_tool_result`."""
        block = Block(
            "tool_result", [{"type": "tool_result", "tool_execution_id": tool_execution_id, "result": result}]
        )
        return await self._database.do(
            lambda connection: _once(connection, scope, chain_id, tool_execution_id, block)
        )

    async def derived(self, compaction_id: str) -> str | None:
        """The id of the chain that a compaction created; None when there is none."""
        row = await self._database.do(
            lambda connection: connection.execute(DERIVED, (compaction_id,)).fetchone()
        )
        return None if row is None else str(row["chain_id"])

    async def derive(
        self, scope: Scope, source_chain_id: str, compaction_id: str, seed_blocks: Sequence[Block]
    ) -> str:
        """Creates the chain of a compaction, and the first time an event for hooks; see
        `ChainSink.derive`."""
        try:
            return await self._database.do(
                lambda connection: _derive(connection, scope, source_chain_id, compaction_id, seed_blocks)
            )
        finally:
            self._outbox.announce()


def _create(connection: sqlite3.Connection, chain: Chain, blocks: Sequence[Block]) -> None:
    try:
        connection.execute(CREATE, msgspec.structs.astuple(chain))
    except sqlite3.IntegrityError as error:
        raise InvalidSpec(f"the chain {chain.chain_id} already exists") from error
    _append(connection, chain.chain_id, blocks)


def _append(
    connection: sqlite3.Connection, chain_id: str, blocks: Sequence[Block], once: str | None = None
) -> int:
    _chain(connection, chain_id)
    if once is None or not connection.execute(EXISTS, (once,)).fetchone():
        for number, block in enumerate(blocks):
            _insert(connection, chain_id, block, once if number == 0 else None)
    last: int = connection.execute(LAST, (chain_id,)).fetchone()[0]
    return last


def _insert(connection: sqlite3.Connection, chain_id: str, block: Block, once: str | None) -> None:
    content, more = msgspec.json.encode(block.content), msgspec.json.encode(block.more)
    connection.execute(INSERT, (chain_id, block.kind, content, once, more))


def _chain(connection: sqlite3.Connection, chain_id: str, scope: Scope | None = None) -> Chain:
    row = connection.execute(FIND, (chain_id,)).fetchone()
    chain = None if row is None else Chain(**dict(row))
    if chain is None or scope not in (None, chain.scope):
        raise InvalidSpec(f"there is no chain {chain_id}")
    return chain


def _page(
    connection: sqlite3.Connection, chain_id: str, after: int, limit: int | None, most_bytes: int | None
) -> ChainPage:
    _chain(connection, chain_id)
    blocks: list[tuple[int, Block]] = []
    size = 0
    for number, kind, content, more in connection.execute(PAGE, (chain_id, after)):
        size += len(content) + len(more)
        if len(blocks) == limit or (blocks and most_bytes is not None and size > most_bytes):
            return ChainPage(blocks, blocks[-1][0])
        blocks.append((number, Block(kind, msgspec.json.decode(content), msgspec.json.decode(more))))
    return ChainPage(blocks, None)


def _once(connection: sqlite3.Connection, scope: Scope, chain_id: str, once: str, block: Block) -> bool:
    """Appends a block unless its key is known. The key includes the tenant, because tenants choose their own
    execution ids."""
    _chain(connection, chain_id, scope)
    own = msgspec.json.encode([scope, once]).decode()
    if connection.execute(EXISTS, (own,)).fetchone():
        return False
    _insert(connection, chain_id, block, own)
    return True


def _derive(
    connection: sqlite3.Connection, scope: Scope, source: str, compaction_id: str, seeds: Sequence[Block]
) -> str:
    origin = _chain(connection, source, scope)
    existing = connection.execute(DERIVED, (compaction_id,)).fetchone()
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
    _create(connection, derived, seeds)
    summary = {"compaction_id": compaction_id, "derived_chain_id": derived.chain_id}
    compacted = outbox.event("chain.compacted", EventSubject("chain", source), summary)
    outbox.insert(connection, origin.scope, compacted)
    return derived.chain_id
