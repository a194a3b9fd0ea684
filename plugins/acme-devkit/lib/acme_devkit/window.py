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
    budget = compaction["target"]["max_input_tokens"]
    per_token = context.config.bytes_per_token
    costs = [cost(block, per_token) for block in told.blocks]
    pinned = {item if isinstance(item, str) else _named(item) for item in told.pinned_items} - {None}
    retain_system = (compaction.get("policy") or {}).get("retain_system", True)
    must = [
        at
        for at, block in enumerate(told.blocks)
        if (retain_system and block.get("kind") == "system") or block.get("id") in pinned
    ]
    kept: set[int] = set()
    left = budget - cost(note(len(told.blocks)), per_token)
    for at in [*must, *reversed(range(len(costs)))]:
        if at in kept:
            continue
        if costs[at] > left:
            if at in must:
                raise vai.Failed(f"max_input_tokens {budget} cannot hold what must stay")
            break
        kept.add(at)
        left -= costs[at]
    gone = len(costs) - len(kept)
    system = sum(block.get("kind") == "system" for at, block in enumerate(told.blocks) if at in kept)
    seeds = [block for at, block in enumerate(told.blocks) if at in kept]
    if gone:
        seeds.insert(system, note(gone))
    output = sum(cost(block, per_token) for block in seeds)
    summary = f"{len(kept)} blocks kept, {gone} earlier ones left out."
    return vai.Compaction(seeds, summary, sum(costs), output, bytes_per_token=per_token)


def note(count: int) -> dict[str, Any]:
    text = f"{count} earlier blocks were left out to make room."
    return {"kind": "input", "content": [{"type": "text", "text": text}]}


def cost(block: dict[str, Any], per_token: int) -> int:
    size = len(json.dumps(block.get("content"), ensure_ascii=False).encode())
    return PER_BLOCK + -(-size // per_token)


def _named(item: Any) -> str | None:
    return (item.get("block_id") or item.get("id")) if isinstance(item, dict) else None
