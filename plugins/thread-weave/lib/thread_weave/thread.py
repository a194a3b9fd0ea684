"""A chain as it is compacted: its blocks in their order, and why some of them must stay."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from thread_weave.tokens import is_name

DONE = {"done", "completed", "complete", "closed", "cancelled", "canceled", "failed", "abandoned", "resolved"}
"""The states of a task that is not open."""
KEPT_BY_HOST = "pinned"
"""The kind of a pinned item that a host put into a chain itself, for a compactor that keeps none."""
SYSTEM, PINNED, TASK = "system", "pinned", "open_tasks"
RANKS = (SYSTEM, PINNED, TASK)
"""What must stay; what comes later yields first."""


class BadThread(ValueError):
    """Says which block or item is not what it should be."""


@dataclass(frozen=True)
class Strand:
    """One block: what it is called (its id, or `#` and its place), and the reason to keep it."""

    name: str
    block: dict[str, Any]
    rank: str | None = None


def read(
    blocks: list[Any], pinned_items: list[Any], *, retain_system: bool = True, retain_open_tasks: bool = True
) -> list[Strand]:
    """Pinned items that are no blocks of the chain come right after the system's blocks at its beginning."""
    for at, block in enumerate(blocks):
        _check(block, f"block {at}")
    names = [block["id"] if is_name(block.get("id")) else f"#{at}" for at, block in enumerate(blocks)]
    pinned, detached = _pinned(pinned_items, {*names})
    strands = []
    for name, block in zip(names, blocks, strict=True):
        rank = None
        if retain_system and block["kind"] == "system":
            rank = SYSTEM
        elif name in pinned or block["kind"] == KEPT_BY_HOST:
            rank = PINNED
        elif retain_open_tasks and _is_open_task(block):
            rank = TASK
        strands.append(Strand(name, block, rank))
    first = next((at for at, block in enumerate(blocks) if block["kind"] != "system"), len(blocks))
    added = [Strand(f"pinned-{at}", block, PINNED) for at, block in detached]
    return strands[:first] + added + strands[first:]


def _is_open_task(block: dict[str, Any]) -> bool:
    return block["kind"] == "task" and str(block.get("status", "open")).lower() not in DONE


def _check(block: Any, where: str) -> None:
    if not isinstance(block, dict) or not isinstance(block.get("kind"), str):
        raise BadThread(f"{where} has no kind")
    content = block.get("content")
    if not isinstance(content, list):
        raise BadThread(f"{where} has no list of content")
    for item in content:
        if not isinstance(item, dict) or not isinstance(item.get("type"), str):
            raise BadThread(f"{where} holds content without a type")
        if item["type"] == "text" and not isinstance(item.get("text"), str):
            raise BadThread(f"{where} holds text that is none")


def _pinned(items: list[Any], known: set[Any]) -> tuple[set[str], list[tuple[int, dict[str, Any]]]]:
    """An item is a block's id, an object that names one, or content or text of its own."""
    names, detached = set(), []
    for at, item in enumerate(items):
        named = item if isinstance(item, str) else None
        if isinstance(item, dict):
            named = item.get("block_id") or item.get("id")
        if isinstance(named, str) and named in known:
            names.add(named)
        elif isinstance(item, str):
            detached.append((at, _said(item)))
        elif isinstance(item, dict) and "content" in item:
            block = {"kind": "input", **item}
            _check(block, f"pinned item {at}")
            detached.append((at, block))
        elif isinstance(item, dict) and isinstance(item.get("text"), str):
            detached.append((at, _said(item["text"])))
        else:
            raise BadThread(f"pinned item {at} names no block and holds nothing")
    return names, detached


def _said(text: str) -> dict[str, Any]:
    return {"kind": "input", "content": [{"type": "text", "text": text}]}
