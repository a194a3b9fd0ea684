"""The request bodies of vai.rpc.v1: the input of an export, its invocation's context and its secrets.

They hold secrets, so their repr is redacted.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec


class GatewayAccess(msgspec.Struct, frozen=True, kw_only=True):
    """The `gateway` in the context of every request: its URL and the delegation token."""

    base_url: str
    delegation_token: str | None = None
    """None without scopes."""
    scopes: list[str] = []

    def __repr__(self) -> str:
        return f"GatewayAccess(base_url={self.base_url!r}, scopes={self.scopes!r})"


class RequestContext(msgspec.Struct, frozen=True, kw_only=True):
    """The `context` of every request: whose invocation it is, its deadline and its scratch folder."""

    invocation_id: str
    trace_id: str
    org_id: str
    project_id: str | None
    session_id: str | None
    chain_id: str | None
    run_id: str | None
    deadline_at: str
    """RFC 3339."""
    scratch_dir: str | None
    gateway: GatewayAccess


class Body(msgspec.Struct, frozen=True):
    """The members that the bodies of all requests share. These are positional, the kind's own are
    keyword-only."""

    export_id: str
    context: RequestContext
    config: dict[str, Any] = {}
    secrets: dict[str, str] = {}
    """The secret values, by slot."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}(export_id={self.export_id!r}, context={self.context!r})"


class ToolBody(Body, frozen=True, kw_only=True):
    """The body of `tool.invoke`."""

    tool_execution_id: str
    input: Any


class EventSubject(msgspec.Struct, frozen=True):
    """The `subject` of the event in `hook.handle`."""

    kind: str
    id: str


class HookEvent(msgspec.Struct, frozen=True, kw_only=True):
    """The `event` in the body of `hook.handle`: something that happened, such as `run.completed`."""

    type: str
    occurred_at: str
    subject: EventSubject
    summary: dict[str, Any] = {}


class HookBody(Body, frozen=True, kw_only=True):
    """The body of `hook.handle`."""

    delivery_id: str
    attempt: int
    event: HookEvent


class Inline(msgspec.Struct, frozen=True, kw_only=True, tag_field="transport", tag="inline"):
    """The projection in `compactor.compact` that travels in the request itself."""

    blocks: list[Any]
    pinned_items: list[Any] = []
    token_estimate: int


class Artifact(msgspec.Struct, frozen=True, kw_only=True, tag_field="transport", tag="artifact"):
    """The projection in `compactor.compact` that travels as a file in the scratch folder."""

    path: str
    sha256: str
    bytes: int
    token_estimate: int


class CompactionSource(msgspec.Struct, frozen=True):
    """The `source` of `compactor.compact`: the chain to compact."""

    chain_id: str
    projection: Inline | Artifact


class CompactionTarget(msgspec.Struct, frozen=True):
    """The `target` of `compactor.compact`: the size and the model to compact for."""

    max_input_tokens: int
    target_model: str


class CompactionPolicy(msgspec.Struct, frozen=True):
    """The `policy` of `compactor.compact`: the content to retain."""

    retain_system: bool = True
    retain_open_tasks: bool = True


class CompactorBody(Body, frozen=True, kw_only=True):
    """The body of `compactor.compact`."""

    compaction_id: str
    source: CompactionSource
    target: CompactionTarget
    policy: CompactionPolicy = CompactionPolicy()


class HarnessTarget(msgspec.Struct, frozen=True, kw_only=True):
    """The `target` of `harness.run`: the session and the chain to work on."""

    session_id: str
    chain_id: str | None = None
    execution_id: str


class Trigger(msgspec.Struct, frozen=True):
    """The `trigger` of `harness.run`: why the run starts, and its input."""

    type: str
    input: list[Any] = []


class HarnessPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """The `policy` of `harness.run`: the limits of the run."""

    max_depth: int
    max_child_runs: int
    allow_compaction: bool


class HarnessBody(Body, frozen=True, kw_only=True):
    """The body of `harness.run`."""

    mode: Literal["start", "resume"]
    target: HarnessTarget
    trigger: Trigger
    policy: HarnessPolicy
    checkpoint: Any = msgspec.UNSET
    """The checkpoint of an earlier run, for a run that resumes."""
