"""The request to an export, per kind (tool, hook, compactor, harness), and its body on the wire.

A request holds everything but the tenant's part: context, configuration and secrets are added by `body`.
"""

from __future__ import annotations

import hashlib
import os
from typing import Any, ClassVar

import msgspec

from plughost.contracts.vai.manifest import Export
from plughost.contracts.vai.request_bodies import (
    Artifact,
    CompactionPolicy,
    CompactionSource,
    CompactionTarget,
    CompactorBody,
    HarnessBody,
    HarnessPolicy,
    HarnessTarget,
    HookBody,
    HookEvent,
    Inline,
    RequestContext,
    ToolBody,
    Trigger,
)
from plughost.errors import HostFailed
from plughost.sandbox.untrusted_temp_dir import open_folder

MAX_INLINE = 256 << 10
"""Bytes of a projection that is sent inline; a larger one is written to a file in the scratch folder."""
PROJECTION = "projection.json"

TenantPart = tuple[RequestContext, Any, dict[str, str]]
"""The tenant's part of every body: the context, the configuration, and the secrets by slot."""


class ToolRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A call of a tool, with its input."""

    kind: ClassVar[str] = "tool"
    tool_execution_id: str
    input: Any

    @property
    def execution_id(self) -> str:
        """The caller's own id of this request, which goes into the record."""
        return self.tool_execution_id

    def body(self, export: Export, context: RequestContext, config: Any, secrets: dict[str, str]) -> ToolBody:
        """The body of the request on the wire."""
        # Hot path: unpacking the three arguments would take as long as all of the rest.
        return ToolBody(
            export.id, context, config, secrets, tool_execution_id=self.tool_execution_id, input=self.input
        )


class HookRequest(msgspec.Struct, frozen=True, kw_only=True):
    """One delivery attempt of an event to a hook."""

    kind: ClassVar[str] = "hook"
    delivery_id: str
    attempt: int
    event: HookEvent

    @property
    def execution_id(self) -> str:
        """The caller's own id of this request, which goes into the record."""
        return self.delivery_id

    def body(self, export: Export, *tenant_part: *TenantPart) -> HookBody:
        """The body of the request on the wire."""
        return HookBody(
            export.id, *tenant_part, delivery_id=self.delivery_id, attempt=self.attempt, event=self.event
        )


class CompactionRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A compaction of a chain: its blocks, the items that must be kept, and the size to reach."""

    kind: ClassVar[str] = "compactor"
    compaction_id: str
    chain_id: str
    blocks: list[Any]
    pinned_items: list[Any] = []
    token_estimate: int
    target: CompactionTarget
    policy: CompactionPolicy = CompactionPolicy()

    @property
    def execution_id(self) -> str:
        """The caller's own id of this request, which goes into the record."""
        return self.compaction_id

    def body(self, export: Export, *tenant_part: *TenantPart) -> CompactorBody:
        """The body of the request on the wire. Writes a large projection into the scratch folder."""
        supports_pins = export.compactor is not None and export.compactor.supports_pinned_items
        # Where the compactor does not keep pinned items, the host does (`results.py`).
        projected = self if supports_pins else msgspec.structs.replace(self, pinned_items=[])
        return CompactorBody(
            export.id,
            *tenant_part,
            compaction_id=self.compaction_id,
            source=CompactionSource(self.chain_id, projected._projection(tenant_part[0].scratch_dir)),
            target=self.target,
            policy=self.policy,
        )

    @property
    def is_large(self) -> bool:
        """Whether the projection is too large to be sent inline, and needs a scratch folder."""
        return len(self._encode_projection()) > MAX_INLINE

    def _encode_projection(self) -> bytes:
        return msgspec.json.encode({"blocks": self.blocks, "pinned_items": self.pinned_items})

    def _projection(self, scratch: str | None) -> Inline | Artifact:
        encoded = self._encode_projection()
        if len(encoded) <= MAX_INLINE or scratch is None:
            return Inline(
                blocks=self.blocks, pinned_items=self.pinned_items, token_estimate=self.token_estimate
            )
        try:
            _write_projection(encoded, scratch)
        except OSError as error:
            raise HostFailed(f"its projection could not be written: {error.strerror}") from error
        return Artifact(
            path=os.path.join(scratch, PROJECTION),
            sha256=hashlib.sha256(encoded).hexdigest(),
            bytes=len(encoded),
            token_estimate=self.token_estimate,
        )


def _write_projection(projection: bytes, scratch: str) -> None:
    """Writes the projection by a file descriptor of the folder: a running process of the tenant could replace
    what is at its path."""
    folder = open_folder(scratch)
    try:
        owner = os.fstat(folder)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        fd = os.open(PROJECTION, flags, 0o600, dir_fd=folder)
        with open(fd, "wb") as file:
            file.write(projection)
            if owner.st_uid != os.geteuid():
                os.fchown(fd, owner.st_uid, owner.st_gid)
    finally:
        os.close(folder)


class HarnessRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A run of a harness, started or, with a `checkpoint`, resumed."""

    kind: ClassVar[str] = "harness"
    target: HarnessTarget
    trigger: Trigger
    policy: HarnessPolicy
    checkpoint: Any = msgspec.UNSET
    """The state that an earlier run returned; with it the harness resumes."""

    @property
    def execution_id(self) -> str:
        """The caller's own id of this request, which goes into the record."""
        return self.target.execution_id

    def body(self, export: Export, *tenant_part: *TenantPart) -> HarnessBody:
        """The body of the request on the wire."""
        return HarnessBody(
            export.id,
            *tenant_part,
            mode="start" if self.checkpoint is msgspec.UNSET else "resume",
            target=self.target,
            trigger=self.trigger,
            policy=self.policy,
            checkpoint=self.checkpoint,
        )


Work = ToolRequest | HookRequest | CompactionRequest | HarnessRequest
