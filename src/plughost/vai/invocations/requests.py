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

INLINE = 256 << 10
"""Bytes of a projection that is sent inline; a larger one is written to a file in the scratch folder."""
PROJECTION = "projection.json"

Whose = tuple[RequestContext, Any, dict[str, str]]
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
        # Most invocations come by here, and to unpack three arguments takes as long as all of this.
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

    def body(self, export: Export, *whose: *Whose) -> HookBody:
        """The body of the request on the wire."""
        return HookBody(
            export.id, *whose, delivery_id=self.delivery_id, attempt=self.attempt, event=self.event
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

    def body(self, export: Export, *whose: *Whose) -> CompactorBody:
        """The body of the request on the wire. Writes a large projection into the scratch folder."""
        keeps_pins = export.compactor is not None and export.compactor.supports_pinned_items
        projected = self if keeps_pins else msgspec.structs.replace(self, pinned_items=[])  # the host does
        return CompactorBody(
            export.id,
            *whose,
            compaction_id=self.compaction_id,
            source=CompactionSource(self.chain_id, projected._projection(whose[0].scratch_dir)),
            target=self.target,
            policy=self.policy,
        )

    @property
    def is_large(self) -> bool:
        """Whether the projection is too large to be sent inline, and needs a scratch folder."""
        return len(self._written()) > INLINE

    def _written(self) -> bytes:
        return msgspec.json.encode({"blocks": self.blocks, "pinned_items": self.pinned_items})

    def _projection(self, scratch: str | None) -> Inline | Artifact:
        written = self._written()
        if len(written) <= INLINE or scratch is None:
            return Inline(
                blocks=self.blocks, pinned_items=self.pinned_items, token_estimate=self.token_estimate
            )
        try:
            _put(written, scratch)
        except OSError as error:
            raise HostFailed(f"its projection could not be written: {error.strerror}") from error
        return Artifact(
            path=os.path.join(scratch, PROJECTION),
            sha256=hashlib.sha256(written).hexdigest(),
            bytes=len(written),
            token_estimate=self.token_estimate,
        )


def _put(projection: bytes, scratch: str) -> None:
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

    def body(self, export: Export, *whose: *Whose) -> HarnessBody:
        """The body of the request on the wire."""
        return HarnessBody(
            export.id,
            *whose,
            mode="start" if self.checkpoint is msgspec.UNSET else "resume",
            target=self.target,
            trigger=self.trigger,
            policy=self.policy,
            checkpoint=self.checkpoint,
        )


Work = ToolRequest | HookRequest | CompactionRequest | HarnessRequest
