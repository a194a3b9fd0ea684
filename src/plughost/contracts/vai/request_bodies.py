"""The bodies of requests: what an export is asked, on whose behalf, and with which credentials.

They hold secrets, so none of them shows what it holds.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec


class GatewayAccess(msgspec.Struct, frozen=True, kw_only=True):
    base_url: str
    delegation_token: str | None = None
    """Null without scopes."""
    scopes: list[str] = []

    def __repr__(self) -> str:
        return f"Gateway(base_url={self.base_url!r}, scopes={self.scopes!r})"


class RequestContext(msgspec.Struct, frozen=True, kw_only=True):
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
    """Whose it is comes first, in this order; what is asked goes by name."""

    export_id: str
    context: RequestContext
    config: dict[str, Any] = {}
    secrets: dict[str, str] = {}
    """By slot."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}(export_id={self.export_id!r}, context={self.context!r})"


class ToolBody(Body, frozen=True, kw_only=True):
    tool_execution_id: str
    input: Any


class EventSubject(msgspec.Struct, frozen=True):
    kind: str
    id: str


class HookEvent(msgspec.Struct, frozen=True, kw_only=True):
    """Something that has happened: `run.completed`, `chain.compacted`."""

    type: str
    occurred_at: str
    subject: EventSubject
    summary: dict[str, Any] = {}


class HookBody(Body, frozen=True, kw_only=True):
    delivery_id: str
    attempt: int
    event: HookEvent


class Inline(msgspec.Struct, frozen=True, kw_only=True, tag_field="transport", tag="inline"):
    blocks: list[Any]
    pinned_items: list[Any] = []
    token_estimate: int


class Artifact(msgspec.Struct, frozen=True, kw_only=True, tag_field="transport", tag="artifact"):
    """A projection that travels as a file in the scratch folder."""

    path: str
    sha256: str
    bytes: int
    token_estimate: int


class CompactionSource(msgspec.Struct, frozen=True):
    chain_id: str
    projection: Inline | Artifact


class CompactionTarget(msgspec.Struct, frozen=True):
    max_input_tokens: int
    target_model: str


class CompactionPolicy(msgspec.Struct, frozen=True):
    retain_system: bool = True
    retain_open_tasks: bool = True


class CompactorBody(Body, frozen=True, kw_only=True):
    compaction_id: str
    source: CompactionSource
    target: CompactionTarget
    policy: CompactionPolicy = CompactionPolicy()


class HarnessTarget(msgspec.Struct, frozen=True, kw_only=True):
    session_id: str
    chain_id: str | None = None
    execution_id: str


class Trigger(msgspec.Struct, frozen=True):
    type: str
    input: list[Any] = []


class HarnessPolicy(msgspec.Struct, frozen=True, kw_only=True):
    max_depth: int
    max_child_runs: int
    allow_compaction: bool


class HarnessBody(Body, frozen=True, kw_only=True):
    mode: Literal["start", "resume"]
    target: HarnessTarget
    trigger: Trigger
    policy: HarnessPolicy
    checkpoint: Any = msgspec.UNSET
    """What an earlier run left, for one that resumes."""
