"""The four exports of acme/devkit, as vai-plugin.toml declares them."""

from __future__ import annotations

from typing import Annotated, Any

from acme_devkit import jira, slack, triage, window
from plughost_sdk import vai

plugin = vai.Plugin()


@plugin.harness(
    "triage",
    display_name="Triage Harness",
    description="Composite bug triage harness",
    max_concurrency=4,
    config=triage.Config,
    network="egress",
    filesystem="scratch",
    scopes=["sessions:read", "chains:read", "chains:write", "runs:write", "compactions:write"],
    secrets=["anthropic_key", "openai_key"],
    mode="composite",
    fidelity="checkpoint",
    supports=["continue", "branch_session", "compact", "tool"],
)
def run_triage(run: dict[str, Any], context: vai.Context) -> vai.Outcome:
    return triage.triage(run, context)


@plugin.tool(
    config=jira.Config,
    network="egress",
    secrets=["jira_token"],
    effect_class="read_only",
    output=jira.Found,
)
def jira_search(
    query: Annotated[str, "Words to look for.", {"minLength": 1, "maxLength": 1000}],
    context: vai.Context,
    project: Annotated[str | None, "A project's key, such as ENG."] = None,
) -> vai.Result:
    return jira.search(context, query, project)


@plugin.hook(
    display_name="Slack Notifier",
    config=slack.Config,
    network="egress",
    scopes=["runs:read"],
    secrets=["slack_webhook"],
    subscribes_to=["run.completed", "chain.compacted"],
)
def slack_notify(event: dict[str, Any], context: vai.Context) -> None:
    slack.notify(event, context)


@plugin.compactor(
    config=window.Config, filesystem="scratch", target_context="coding", supports_pinned_items=True
)
def coder_window(compaction: dict[str, Any], context: vai.Context) -> vai.Compaction:
    return window.compact(compaction, context)
