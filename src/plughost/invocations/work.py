"""What is asked of an export, by its kind: everything of a request but whose it is."""

from __future__ import annotations

import hashlib
import os
from typing import Any, ClassVar

import msgspec

from plughost.base.errors import HostFailed
from plughost.contracts.vai.bodies import (
    Artifact,
    CompactionPolicy,
    CompactionTarget,
    CompactorBody,
    Context,
    HarnessBody,
    HarnessPolicy,
    HarnessTarget,
    HookBody,
    HookEvent,
    Inline,
    Source,
    ToolBody,
    Trigger,
)
from plughost.invocations.scratch import opened

INLINE = 256 << 10
"""Bytes of a projection; a larger one travels as a file."""
PROJECTION = "projection.json"

Whose = tuple[str, Context, Any, dict[str, str]]
"""Where every body begins: the export's id, the context, the config, and the secrets by slot."""


class Tool(msgspec.Struct, frozen=True, kw_only=True):
    kind: ClassVar[str] = "tool"
    tool_execution_id: str
    input: Any

    def body(self, export_id: str, context: Context, config: Any, secrets: dict[str, str]) -> ToolBody:
        # Most invocations come by here, and to unpack four arguments takes as long as all of this.
        return ToolBody(
            export_id, context, config, secrets, tool_execution_id=self.tool_execution_id, input=self.input
        )


class Hook(msgspec.Struct, frozen=True, kw_only=True):
    kind: ClassVar[str] = "hook"
    delivery_id: str
    attempt: int
    event: HookEvent

    def body(self, *whose: *Whose) -> HookBody:
        return HookBody(*whose, delivery_id=self.delivery_id, attempt=self.attempt, event=self.event)


class Compaction(msgspec.Struct, frozen=True, kw_only=True):
    kind: ClassVar[str] = "compactor"
    compaction_id: str
    chain_id: str
    blocks: list[Any]
    pinned_items: list[Any] = []
    token_estimate: int
    target: CompactionTarget
    policy: CompactionPolicy = CompactionPolicy()

    def body(self, *whose: *Whose) -> CompactorBody:
        _, context, _, _ = whose
        return CompactorBody(
            *whose,
            compaction_id=self.compaction_id,
            source=Source(self.chain_id, self._projection(context.scratch_dir)),
            target=self.target,
            policy=self.policy,
        )

    def without_pins(self) -> Compaction:
        """For an export that cannot keep them: the host does."""
        return msgspec.structs.replace(self, pinned_items=[])

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
    folder = opened(scratch)
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


class Harness(msgspec.Struct, frozen=True, kw_only=True):
    kind: ClassVar[str] = "harness"
    target: HarnessTarget
    trigger: Trigger
    policy: HarnessPolicy
    checkpoint: Any = msgspec.UNSET
    """What an earlier run left; with it the harness resumes."""

    def body(self, *whose: *Whose) -> HarnessBody:
        return HarnessBody(
            *whose,
            mode="start" if self.checkpoint is msgspec.UNSET else "resume",
            target=self.target,
            trigger=self.trigger,
            policy=self.policy,
            checkpoint=self.checkpoint,
        )


Work = Tool | Hook | Compaction | Harness


def execution_id(work: Work) -> str:
    """What the caller knows this piece of work by."""
    match work:
        case Tool(tool_execution_id=known) | Hook(delivery_id=known) | Compaction(compaction_id=known):
            return known
        case Harness(target=target):
            return target.execution_id
