"""Woven blocks: a line that names the source, and lines of what was said there, the newest first to get room.

[woven: 12 blocks of chain ch_1, b3 to b14]
- b3 input: Fix the auth redirect bug
- b9 output: tests/test_auth.py fails: 302 instead of 401
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from thread_weave.thread import Strand
from thread_weave.tokens import LONGEST_ID, Estimator

LONGEST_LINE = 160
"""Characters of a line; what is cut ends with an ellipsis."""
ASKED = ("input", "task")
"""Kinds of blocks that say what the work is."""
DETAILS = 3
"""Lines of a block besides its first."""
TELLING = re.compile(
    r"\b(error|fail(ed|s|ure)?|fixed|decid\w+|because|todo|must|never|passed|pending|blocked|next)\b"
    r"|\w/\w+\.\w+",
    re.I,
)
"""Lines that tell of a decision, a problem, a result, or a file."""


@dataclass
class Woven:
    strands: list[Strand]
    block: dict[str, Any]


def marker(strands: list[Strand], chain_id: str) -> str:
    """Names what a woven block stands for."""
    first, last = strands[0].name, strands[-1].name
    if len(strands) == 1:
        return f"[woven: block {first} of chain {chain_id}]"
    return f"[woven: {len(strands)} blocks of chain {chain_id}, {first} to {last}]"


def weave_runs(runs: list[list[Strand]], left: int, chain_id: str, estimator: Estimator) -> list[Woven]:
    """A woven block for each run; if there is no room for so many, one for all; else none."""
    named = chain_id[:LONGEST_ID] if chain_id.isprintable() else "?"
    for several in ([[run] for run in runs], [runs]):
        joined = [[strand for run in some for strand in run] for some in several]
        if not all(joined):
            continue
        markers = [marker(strands, named) for strands in joined]
        least = [_block(some, text, chain_id) for some, text in zip(several, markers, strict=True)]
        cost = sum(estimator.block(block, woven=True) for block in least)
        if cost <= left:
            chosen = _chosen(joined, left - cost, estimator)
            return [
                Woven(strands, _block(some, "\n".join([text, *lines]), chain_id))
                for some, strands, text, lines in zip(several, joined, markers, chosen, strict=True)
            ]
    return []


def _block(runs: list[list[Strand]], text: str, chain_id: str) -> dict[str, Any]:
    """The lineage is exact: between its ranges stand blocks that were kept."""
    ranges = [{"first": run[0].name, "last": run[-1].name, "blocks": len(run)} for run in runs]
    lineage = {"chain_id": chain_id, "ranges": ranges}
    return {"kind": "input", "content": [{"type": "text", "text": text, "lineage": lineage}]}


def _chosen(runs: list[list[Strand]], left: int, estimator: Estimator) -> list[list[str]]:
    """The lines of each run, in their order. First lines get room before details, and what was asked before
    what was done about it; then the newest before the oldest.
    """
    said = [[_said(strand) for strand in run] for run in runs]
    places = [(at, index) for at, run in enumerate(runs) for index in range(len(run))][::-1]
    places.sort(key=lambda place: runs[place[0]][place[1]].block["kind"] not in ASKED)
    taken: dict[tuple[int, int], list[str]] = {}
    for depth in range(1 + DETAILS):
        for at, index in places:
            lines = said[at][index]
            if depth >= len(lines) or (depth and (at, index) not in taken):
                continue
            cost = 1 + estimator.text(lines[depth])  # and its newline
            if cost <= left:
                left -= cost
                taken.setdefault((at, index), []).append(lines[depth])
    return [
        [line for index in range(len(run)) for line in taken.get((at, index), ())]
        for at, run in enumerate(runs)
    ]


def _said(strand: Strand) -> list[str]:
    """What there is to say of a block: its first line, then those that tell most."""
    texts = [item["text"] for item in strand.block["content"] if item["type"] == "text"]
    lines = [line for text in texts for raw in text.splitlines() if (line := _plain(raw))]
    status = strand.block.get("status")
    kind = _plain(strand.block["kind"]) + (f" ({_plain(status)})" if isinstance(status, str) else "")
    first = lines[0] if lines else f"{len(strand.block['content'])} items without text"
    details = [line for line in lines[1:] if TELLING.search(line)][:DETAILS]
    return [_cut(f"- {strand.name} {kind}: {first}"), *(_cut(f"  {line}") for line in details)]


def _plain(text: str) -> str:
    """One line without what is not to be seen."""
    return " ".join("".join(letter if letter.isprintable() else " " for letter in text[:4000]).split())


def _cut(line: str) -> str:
    return line if len(line) <= LONGEST_LINE else line[: LONGEST_LINE - 1].rstrip() + "…"
