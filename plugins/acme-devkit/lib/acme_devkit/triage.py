"""Bug triage in steps, each a child run. All it does, it does through the gateway's API.

The checkpoint is the number of the next step, and how often that was tried: a run that was stopped, or had no
runs left, goes on from there. A try has the same idempotency key whenever it is made: no child run is
created twice.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any
from urllib.parse import quote

from plughost_sdk import vai

STEPS = [
    "Gather what the chain says of the bug: symptoms, files, earlier attempts.",
    "Find the cause, and say how sure you are of it.",
    "Fix it, and add a test that fails without the fix.",
]
MARGIN = 5.0
"""Seconds before the deadline at which it stops by itself, with a checkpoint."""


@dataclass
class Config:
    steps: Annotated[list[str], "What the child runs are asked, one after another."] = field(
        default_factory=lambda: [*STEPS]
    )
    compact_above: Annotated[
        int, "Tokens of a chain from which on it is compacted first, if the policy allows.", {"minimum": 1000}
    ] = 100_000
    compactor: Annotated[str, "The bound compactor that does it."] = "coder_window"
    max_input_tokens: Annotated[int, "What it is to compact a chain to.", {"minimum": 1000}] = 32_000


def triage(run: dict[str, Any], context: vai.Context) -> vai.Outcome:
    steps, policy = context.config.steps, run.get("policy") or {}
    cursor, attempt = _position(run, len(steps))
    execution_id = run["target"]["execution_id"]
    chain, notes = _prepared(run, context, compacting=policy.get("allow_compaction") is True)
    chain_id = chain["chain_id"]
    asked = "\n".join(item["text"] for item in run["trigger"]["input"] if item.get("type") == "text")
    created = 0
    while cursor < len(steps):
        context.check()
        left = context.remaining()
        if created >= policy.get("max_child_runs", 0):
            return _stopped(cursor, notes, f"the policy allows {created} child runs", attempt)
        if left is not None and left < MARGIN:
            return _stopped(cursor, notes, "the deadline is near", attempt)
        context.progress(steps[cursor], step=cursor + 1, of=len(steps))
        child = context.gateway.post(
            "/v1/runs",
            {
                "session_id": run["target"]["session_id"],
                "chain_id": chain_id,
                "parent_run_id": context.run_id,
                "input": [{"type": "text", "text": f"{steps[cursor]}\n\n{asked}"}],
            },
            idempotency_key=f"{execution_id}:{cursor}:{attempt}",
        )
        created += 1
        if child.get("status") == "running":  # nobody else does it: the step is ours
            child = _done(child["run_id"], steps[cursor], chain, context)
        if child.get("status") != "succeeded":
            return _stopped(cursor, notes, f"it ended {child.get('status')}", attempt + 1)
        notes.append(f"step {cursor + 1} is run {child['run_id']}")
        cursor, attempt = cursor + 1, 0
    text = f"Triage is done: {'; '.join(notes)}."
    block = {"kind": "output", "content": [{"type": "text", "text": text}]}
    key = f"{execution_id}:end"
    context.gateway.post(f"{_path(chain_id)}/blocks", {"blocks": [block]}, idempotency_key=key)
    return vai.Outcome({"cursor": cursor}, text)


def _position(run: dict[str, Any], steps: int) -> tuple[int, int]:
    """Where to go on; a checkpoint that is none is refused before anything is done."""
    if run["mode"] != "resume":
        return 0, 0
    data = (run.get("checkpoint") or {}).get("data") or {}
    cursor, attempt = data.get("cursor"), data.get("attempt", 0)
    if type(cursor) is not int or not 0 <= cursor <= steps or type(attempt) is not int:
        raise vai.Failed(f"a checkpoint holds the number of the next step, 0 to {steps}, not {cursor!r:.60}")
    return cursor, attempt


def _done(run_id: str, step: str, chain: dict[str, Any], context: vai.Context) -> Any:
    """A run finished with what the chain says of it."""
    texts = [item.get("text", "") for block in chain.get("blocks", ()) for item in block.get("content", ())]
    said = " / ".join(text.splitlines()[0] for text in texts[-3:] if text.strip())
    output = f"{step} From {len(texts)} texts, the last: {said or 'none'}"[:4000]
    path = f"/v1/runs/{quote(run_id, safe='')}"
    return context.gateway.request("PATCH", path, {"status": "succeeded", "output": output})


def _prepared(
    run: dict[str, Any], context: vai.Context, *, compacting: bool
) -> tuple[dict[str, Any], list[str]]:
    """The chain to work on: the one it was given, or what that was compacted to."""
    chain_id = run["target"]["chain_id"]
    chain = context.gateway.get(_path(chain_id))
    if not compacting or chain.get("token_estimate", 0) <= context.config.compact_above:
        return chain, []
    target = {"max_input_tokens": context.config.max_input_tokens, "target_model": "any"}
    wanted = {"chain_id": chain_id, "export": context.config.compactor, "target": target}
    key = f"{run['target']['execution_id']}:compact"
    derived = context.gateway.post("/v1/compactions", wanted, idempotency_key=key)["chain_id"]
    return context.gateway.get(_path(derived)), [f"chain {chain_id} was compacted to {derived}"]


def _path(chain_id: str) -> str:
    return f"/v1/chains/{quote(chain_id, safe='')}"


def _stopped(cursor: int, notes: list[str], why: str, attempt: int) -> vai.Outcome:
    told = [*notes, f"stopped at step {cursor + 1}: {why}"]
    data = {"cursor": cursor, **({"attempt": attempt} if attempt else {})}
    return vai.Outcome(data, f"Triage goes on later: {'; '.join(told)}.")
