"""The export `thread_weave`: what comes over the wire, as a thread, and back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal

from plughost_sdk import vai
from thread_weave.thread import BadThread, read
from thread_weave.tokens import Estimator
from thread_weave.weave import TooSmall, weave

plugin = vai.Plugin()


@dataclass
class Config:
    """How a chain is woven."""

    woven_percent: Annotated[
        int, "Of the room beside what must stay, the part for woven history.", {"minimum": 0, "maximum": 90}
    ] = 25
    estimator: Annotated[
        Literal["classes", "bytes"], "How tokens are counted: closely, or beyond any doubt."
    ] = "classes"


@plugin.compactor(
    display_name="Thread Weave Compactor",
    filesystem="scratch",
    config=Config,
    max_concurrency=4,
    target_context="coding",
    supports_pinned_items=True,
)
def thread_weave(compaction: dict[str, Any], context: vai.Context) -> vai.Compaction:
    """Keeps recent coding context as it is and weaves older history into lineage-linked seed blocks"""
    source, policy = compaction["source"], compaction.get("policy") or {}
    projection = vai.load(source["projection"], context.scratch_dir)
    try:
        strands = read(
            projection.blocks,
            projection.pinned_items,
            retain_system=policy.get("retain_system", True) is not False,
            retain_open_tasks=policy.get("retain_open_tasks", True) is not False,
        )
        cloth = weave(
            strands,
            compaction["target"]["max_input_tokens"],
            chain_id=str(source["chain_id"]),
            woven_percent=context.config.woven_percent,
            estimator=Estimator(context.config.estimator),
        )
    except (BadThread, TooSmall) as error:
        raise vai.Failed(str(error)) from None
    return vai.Compaction(
        cloth.blocks, cloth.summary, cloth.input_tokens, cloth.output_tokens, **cloth.diagnostics
    )
