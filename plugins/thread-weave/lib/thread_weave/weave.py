"""What stays and what is woven, inside a budget of tokens. A function of values: same thread, same bytes.

If all of it fits, all of it stays. Else blocks are kept as they are in this order, while the budget allows:
the system's, pinned items, open tasks from the newest on, the newest block of all, and the window, which goes
from there backwards as far as it leaves a share of the rest to the woven ones. So the first to yield are the
lines of woven blocks, the oldest first, then the window from its oldest end, then the newest block, the open
tasks from the oldest on, the pinned items from the last on, and at the very end the system's. What yields is
woven. When there is no room for a woven block between kept ones, one stands for all; when there is none for
that either, the diagnostics count what was dropped.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from thread_weave.lines import Woven, weave_runs
from thread_weave.thread import PINNED, RANKS, SYSTEM, TASK, Strand
from thread_weave.tokens import Estimator, least

MOST_NAMES = 20
"""Names of what had to yield, in the diagnostics; how many there are is told in full."""


class TooSmall(ValueError):
    """A budget that holds nothing of the thread."""


@dataclass
class Cloth:
    """The seed of the derived chain, and how it came about."""

    blocks: list[dict[str, Any]]
    summary: str
    input_tokens: int
    output_tokens: int
    diagnostics: dict[str, Any] = field(default_factory=dict)


def weave(
    strands: list[Strand],
    budget: int,
    *,
    chain_id: str,
    woven_percent: int = 25,
    estimator: Estimator | None = None,
) -> Cloth:
    if type(budget) is not int or budget < 1:
        raise TooSmall(f"max_input_tokens is a number of tokens, not {budget!r:.60}")
    estimator = estimator or Estimator()
    costs = [estimator.block(each.block) for each in strands]
    kept = _kept(strands, costs, budget, woven_percent)
    left = budget - sum(costs[at] for at in kept)
    woven = weave_runs(_runs(strands, kept), left, chain_id, estimator)
    blocks = _in_order(strands, kept, woven)
    if strands and not blocks:
        raise TooSmall(f"max_input_tokens {budget} holds no block of this chain, and no word about it")
    output = budget - left + sum(estimator.block(each.block, woven=True) for each in woven)
    assert output <= budget, "the budget holds"
    told = _diagnostics(strands, kept, woven, estimator)
    told["output_tokens_at_least"] = sum(map(least, blocks))
    told["tokens_left"] = budget - output
    return Cloth(blocks, _summary(strands, kept, woven), sum(costs), output, told)


def _kept(strands: list[Strand], costs: list[int], budget: int, woven_percent: int) -> set[int]:
    """The places of the blocks that stay as they are."""
    if sum(costs) <= budget:
        return {*range(len(strands))}
    kept: set[int] = set()
    left = budget
    for at in _must(strands):
        if costs[at] <= left:
            kept.add(at)
            left -= costs[at]
    room = left - left * woven_percent // 100
    window: list[int] = []
    for at in reversed(range(len(strands))):
        if at in kept:
            continue
        # The newest may also have the woven ones' share: it is what the next step answers to.
        fits = costs[at] <= (left if at == len(strands) - 1 else room)
        if not fits:
            break
        window.append(at)
        room -= costs[at]
        left -= costs[at]
    while window and strands[window[-1]].block["kind"] == "tool_result":
        window.pop()  # a result without its call is refused by models
    return kept | {*window}


def _must(strands: list[Strand]) -> list[int]:
    by_rank: dict[str, list[int]] = {rank: [] for rank in RANKS}
    for at, strand in enumerate(strands):
        if strand.rank is not None:
            by_rank[strand.rank].append(at)
    return by_rank[SYSTEM] + by_rank[PINNED] + by_rank[TASK][::-1]


def _runs(strands: list[Strand], kept: set[int]) -> list[list[Strand]]:
    """What is not kept, in stretches without a kept block between."""
    runs: list[list[Strand]] = [[]]
    for at, strand in enumerate(strands):
        if at in kept:
            runs.append([])
        else:
            runs[-1].append(strand)
    return [run for run in runs if run]


def _in_order(strands: list[Strand], kept: set[int], woven: list[Woven]) -> list[dict[str, Any]]:
    """A woven block stands where the newest of its own stood."""
    by_last = {id(each.strands[-1]): each.block for each in woven}
    blocks = []
    for at, strand in enumerate(strands):
        if at in kept:
            blocks.append(strand.block)
        elif id(strand) in by_last:
            blocks.append(by_last[id(strand)])
    return blocks


def _diagnostics(
    strands: list[Strand], kept: set[int], woven: list[Woven], estimator: Estimator
) -> dict[str, Any]:
    yielded = {}
    for rank in RANKS:
        names = [strand.name for at, strand in enumerate(strands) if strand.rank == rank and at not in kept]
        if names:
            yielded[rank] = {"count": len(names), "blocks": names[:MOST_NAMES]}
    covered = sum(len(each.strands) for each in woven)
    return {
        "estimator": estimator.name,
        "estimates": "at most; the truth is between output_tokens_at_least and output_tokens_estimate",
        "blocks_kept": len(kept),
        "blocks_woven": covered,
        "blocks_dropped": len(strands) - len(kept) - covered,
        "yielded": yielded,
    }


def _summary(strands: list[Strand], kept: set[int], woven: list[Woven]) -> str:
    covered = sum(len(each.strands) for each in woven)
    tasks = sum(strand.rank == TASK for strand in strands)
    told = f"{len(kept)} blocks kept as they are"
    if covered:
        told += f", {covered} older ones woven into {len(woven)}"
    return f"{told}; {tasks} open tasks." if tasks else f"{told}."
