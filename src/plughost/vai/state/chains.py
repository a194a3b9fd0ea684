"""Chains of blocks: what the host writes for tools and compactors, which never write themselves.

A tool's result is in its chain once for each tool_execution_id, however often the call was tried. A
compaction makes a chain of its own that names its source, and the source stays as it is.
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
IS_THERE = "SELECT 1 FROM blocks WHERE once = ?"
SIZE = "SELECT coalesce(sum(length(content) + length(more) - 2), 0) FROM blocks WHERE chain_id = ?"


class Block(msgspec.Struct, frozen=True):
    kind: str
    content: list[Any]
    more: Mapping[str, Any] = {}
    """Its other members, such as its `id`: a block that is kept stays as it is."""

    @classmethod
    def of(cls, told: Mapping[str, Any]) -> Block:
        more = {name: value for name, value in told.items() if name not in ("kind", "content")}
        return cls(told["kind"], told["content"], more)

    @property
    def told(self) -> dict[str, Any]:
        return {**self.more, "kind": self.kind, "content": self.content}


class Chain(msgspec.Struct, frozen=True, kw_only=True):
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
    blocks: list[tuple[int, Block]]
    """Each with its number in the chain."""
    following: int | None
    """The number to go on after; None at the end."""


class ChainSink(Protocol):
    """The seam to whoever keeps chains. What it cannot keep is an error, of its own kind or the system's."""

    async def insert_tool_result(
        self, scope: Scope, chain_id: str, tool_execution_id: str, result: Any
    ) -> bool:
        """True when it is there now, False when it was before. InvalidSpec for a chain of another tenant."""

    async def derive(
        self, scope: Scope, source_chain_id: str, compaction_id: str, seed_blocks: Sequence[Block]
    ) -> str:
        """The chain that a compaction has made: the same one for the same compaction.

        InvalidSpec for a source of another tenant.
        """


class Chains:
    """InvalidSpec for a chain that is not there. Another tenant's is not there."""

    def __init__(self, database: SqliteDatabase, happened: Outbox) -> None:
        self._database = database
        self._happened = happened

    async def create(self, chain: Chain, blocks: Sequence[Block] = ()) -> None:
        await self._database.do(lambda connection: _create(connection, chain, blocks))

    async def append(self, chain_id: str, blocks: Sequence[Block], once: str | None = None) -> int:
        """The number of the chain's last block then. With `once` nothing is added a second time."""
        return await self._database.do(lambda connection: _append(connection, chain_id, blocks, once))

    async def chain(self, chain_id: str) -> Chain:
        return await self._database.do(lambda connection: _chain(connection, chain_id))

    async def blocks(self, chain_id: str) -> list[Block]:
        return [block for _, block in (await self.page(chain_id)).blocks]

    async def page(
        self, chain_id: str, after: int = 0, limit: int | None = None, most_bytes: int | None = None
    ) -> ChainPage:
        """The blocks that come next after that number: at least one, if there is one."""
        return await self._database.do(
            lambda connection: _page(connection, chain_id, after, limit, most_bytes)
        )

    async def size(self, chain_id: str) -> int:
        """Bytes of all its blocks."""
        return await self._database.do(
            lambda connection: int(connection.execute(SIZE, (chain_id,)).fetchone()[0])
        )

    async def insert_tool_result(
        self, scope: Scope, chain_id: str, tool_execution_id: str, result: Any
    ) -> bool:
        block = Block(
            "tool_result", [{"type": "tool_result", "tool_execution_id": tool_execution_id, "result": result}]
        )
        return await self._database.do(
            lambda connection: _once(connection, scope, chain_id, tool_execution_id, block)
        )

    async def derived(self, compaction_id: str) -> str | None:
        """The chain that a compaction has made."""
        row = await self._database.do(
            lambda connection: connection.execute(DERIVED, (compaction_id,)).fetchone()
        )
        return None if row is None else str(row["chain_id"])

    async def derive(
        self, scope: Scope, source_chain_id: str, compaction_id: str, seed_blocks: Sequence[Block]
    ) -> str:
        """And an event for hooks, the first time."""
        try:
            return await self._database.do(
                lambda connection: _derive(connection, scope, source_chain_id, compaction_id, seed_blocks)
            )
        finally:
            self._happened.announce()


def _create(connection: sqlite3.Connection, chain: Chain, blocks: Sequence[Block]) -> None:
    try:
        connection.execute(CREATE, msgspec.structs.astuple(chain))
    except sqlite3.IntegrityError as error:
        raise InvalidSpec(f"there is a chain {chain.chain_id} already") from error
    _append(connection, chain.chain_id, blocks)


def _append(
    connection: sqlite3.Connection, chain_id: str, blocks: Sequence[Block], once: str | None = None
) -> int:
    _chain(connection, chain_id)
    if once is None or not connection.execute(IS_THERE, (once,)).fetchone():
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
    """Tenants name their executions themselves, so two may have the same name."""
    _chain(connection, chain_id, scope)
    own = msgspec.json.encode([scope, once]).decode()
    if connection.execute(IS_THERE, (own,)).fetchone():
        return False
    _insert(connection, chain_id, block, own)
    return True


def _derive(
    connection: sqlite3.Connection, scope: Scope, source: str, compaction_id: str, seeds: Sequence[Block]
) -> str:
    origin = _chain(connection, source, scope)
    made = connection.execute(DERIVED, (compaction_id,)).fetchone()
    if made is not None:
        if made["source_chain_id"] != source:
            raise InvalidSpec(f"there is a compaction {compaction_id} already, of another chain")
        return str(made["chain_id"])
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
    outbox.tell(connection, origin.scope, compacted)
    return derived.chain_id
