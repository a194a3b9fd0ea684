"""What is asked of an export, by its kind: everything of a request but whose it is."""

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
"""Bytes of a projection; a larger one travels as a file."""
PROJECTION = "projection.json"

Whose = tuple[RequestContext, Any, dict[str, str]]
"""Where every body begins, after the export's id: the context, the config, and the secrets by slot."""


class ToolRequest(msgspec.Struct, frozen=True, kw_only=True):
    kind: ClassVar[str] = "tool"
    tool_execution_id: str
    input: Any

    @property
    def execution_id(self) -> str:
        """What the caller knows this piece of work by."""
        return self.tool_execution_id

    def body(self, export: Export, context: RequestContext, config: Any, secrets: dict[str, str]) -> ToolBody:
        # Most invocations come by here, and to unpack three arguments takes as long as all of this.
        return ToolBody(
            export.id, context, config, secrets, tool_execution_id=self.tool_execution_id, input=self.input
        )


class HookRequest(msgspec.Struct, frozen=True, kw_only=True):
    kind: ClassVar[str] = "hook"
    delivery_id: str
    attempt: int
    event: HookEvent

    @property
    def execution_id(self) -> str:
        return self.delivery_id

    def body(self, export: Export, *whose: *Whose) -> HookBody:
        return HookBody(
            export.id, *whose, delivery_id=self.delivery_id, attempt=self.attempt, event=self.event
        )


class CompactionRequest(msgspec.Struct, frozen=True, kw_only=True):
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
        return self.compaction_id

    def body(self, export: Export, *whose: *Whose) -> CompactorBody:
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
        """Whether its projection travels as a file in a scratch folder."""
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
    """Into the folder itself: a process that serves its tenant already can swap what lies at its path."""
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
    kind: ClassVar[str] = "harness"
    target: HarnessTarget
    trigger: Trigger
    policy: HarnessPolicy
    checkpoint: Any = msgspec.UNSET
    """What an earlier run left; with it the harness resumes."""

    @property
    def execution_id(self) -> str:
        return self.target.execution_id

    def body(self, export: Export, *whose: *Whose) -> HarnessBody:
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
