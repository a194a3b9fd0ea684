"""vai plugins: tools, hooks, compactors and harnesses, many in one package.

from dataclasses import dataclass
from plughost_sdk import vai

plugin = vai.Plugin()

@dataclass
class Found:
    issues: list[str]

@plugin.tool(effect_class="read_only", network="egress", secrets=["jira_token"])
def jira_search(query: str, context: vai.Context, limit: int = 10) -> Found:
    context.progress(f"searching for {query}")
    return Found(issues=search(context.config["base_url"], query, limit, context.secrets["jira_token"]))

@plugin.hook(subscribes_to=["run.completed"])
async def notify(event, context): ...

@plugin.compactor(target_context="coding")
def window(compaction, context):
    blocks = vai.load(compaction["source"]["projection"], context.scratch_dir).blocks
    return vai.Compaction(blocks[-10:], "the last ten blocks", 182_000, 5_400)

@plugin.harness(fidelity="checkpoint", scopes=["chains:read"])
def triage(run, context):
    chain = context.gateway.get(f"/v1/chains/{run['target']['chain_id']}")
    return vai.Outcome({"cursor": 1}, "read the chain")

plugin.run()

Who it is, it reads in the `vai-plugin.toml` beside it or one folder up; `python -m plughost_sdk.vai generate`
writes that file's exports, and the schemas, from the functions. Requests are handled side by side: a plain
function in a thread, a coroutine in an event loop. What a function raises is a failed result with its words:
`Failed` when that is no surprise, `Retryable` when another try may help, anything else with a traceback in
the log.
"""

from plughost_sdk.vai.context import Cancelled, Context, Secrets
from plughost_sdk.vai.gateway import Gateway, GatewayBusy, GatewayError
from plughost_sdk.vai.outcome import Compaction, Failed, Outcome, Result, Retryable
from plughost_sdk.vai.plugin import Plugin
from plughost_sdk.vai.projection import BadProjection, Projection, load
from plughost_sdk.vai.session import PROTOCOL

__all__ = [
    "PROTOCOL", "BadProjection", "Cancelled", "Compaction", "Context", "Failed", "Gateway", "GatewayBusy",
    "GatewayError", "Outcome", "Plugin", "Projection", "Result", "Retryable", "Secrets", "load",
]  # fmt: skip
