"""The newest blocks of a chain that fit, after the system's and the pinned ones."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Annotated, Any

from plughost_sdk import vai

PER_BLOCK = 12


@dataclass
class Config:
    bytes_per_token: Annotated[
        int,
        "How tokens are estimated: 1 is never under, 3 is close for English and code.",
        {"minimum": 1, "maximum": 4},
    ] = 3


def compact(compaction: dict[str, Any], context: vai.Context) -> vai.Compaction:
    told = vai.load(compaction["source"]["projection"], context.scratch_dir)
    retain_system = (compaction.get("policy") or {}).get("retain_system", True)
    blocks, must = arranged(told.blocks, told.pinned_items, retain_system=retain_system)
    budget, per_token = compaction["target"]["max_input_tokens"], context.config.bytes_per_token
    costs = [cost(block, per_token) for block in blocks]
    kept = {*range(len(blocks))} if sum(costs) <= budget else chosen(costs, must, budget, per_token)
    gone = len(blocks) - len(kept)
    seeds = [block for at, block in enumerate(blocks) if at in kept]
    if gone:
        first = next((at for at, block in enumerate(seeds) if block.get("kind") != "system"), len(seeds))
        seeds.insert(first, note(gone))
    output = sum(cost(block, per_token) for block in seeds)
    summary = f"{len(kept)} blocks kept, {gone} earlier ones left out."
    return vai.Compaction(seeds, summary, sum(costs), output, bytes_per_token=per_token)


def arranged(
    blocks: list[dict[str, Any]], pinned_items: list[Any], *, retain_system: bool
) -> tuple[list[dict[str, Any]], set[int]]:
    """All blocks, pinned content of its own after the system's; and the places of those that must stay."""
    ids = {block.get("id") for block in blocks if isinstance(block.get("id"), str)}
    pinned = {item for item in map(_named, pinned_items) if item in ids}
    own = [
        item
        for item in pinned_items
        if isinstance(item, dict) and _named(item) not in ids and "content" in item
    ]
    first = next((at for at, block in enumerate(blocks) if block.get("kind") != "system"), len(blocks))
    all_blocks = [*blocks[:first], *({"kind": "input", **item} for item in own), *blocks[first:]]
    must = {
        at
        for at, block in enumerate(all_blocks)
        if (retain_system and block.get("kind") == "system")
        or first <= at < first + len(own)
        or (isinstance(block.get("id"), str) and block["id"] in pinned)
    }
    return all_blocks, must


def chosen(costs: list[int], must: set[int], budget: int, per_token: int) -> set[int]:
    """What must stay, and from the newest backwards as much as there is room for beside the note."""
    left = budget - cost(note(len(costs)), per_token) - sum(costs[at] for at in must)
    if left < 0:
        raise vai.Failed(f"max_input_tokens {budget} cannot hold what must stay")
    kept = {*must}
    for at in reversed(range(len(costs))):
        if at not in must:
            if costs[at] > left:
                break
            kept.add(at)
            left -= costs[at]
    return kept


def note(count: int) -> dict[str, Any]:
    text = f"{count} earlier blocks were left out to make room."
    return {"kind": "input", "content": [{"type": "text", "text": text}]}


def cost(block: dict[str, Any], per_token: int) -> int:
    size = len(json.dumps(block.get("content"), ensure_ascii=False).encode())
    return PER_BLOCK + -(-size // per_token)


def _named(item: Any) -> str | None:
    """The id of the block that a pinned item names."""
    name = (item.get("block_id") or item.get("id")) if isinstance(item, dict) else item
    return name if isinstance(name, str) else None
