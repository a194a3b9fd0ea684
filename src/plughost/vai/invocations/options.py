"""InvokerOptions: how a host executes invocations."""

from __future__ import annotations

from typing import Literal, get_args

import msgspec

from plughost._util.seconds import check_seconds
from plughost._util.text import truncate
from plughost.errors import InvalidSpec
from plughost.permissions.access import ResourceLimits
from plughost.sandbox.plan import CLASSES
from plughost.vai.bindings.binding import BindingPolicy
from plughost.vai.records.retention import RecordLimits
from plughost.vai.retry_policy import TOOL_TRIES, Backoff

Reuse = Literal["binding", "invocation"]


class InvokerOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of how a host executes invocations."""

    policy: BindingPolicy = BindingPolicy()
    """The host's own policy: the most that any binding may be granted."""
    limits: ResourceLimits = ResourceLimits()
    sandbox: str = "strict"
    """The sandbox class of its processes: strict, landlock or none."""
    reuse: Reuse = "binding"
    """Whether an isolated process serves its `binding`, or only one `invocation`."""
    most_processes: int = 64
    workers: int = 4
    """Concurrent invocations of class worker (background work), over all bindings. Organisations share them
    fairly, and within an organisation its bindings: a free one goes to whoever has the fewest. Beyond them, a
    quarter as many, but at least one, are for organisations of which none is running."""
    idle: float = 300.0
    """Seconds after which an unused process is stopped."""
    tries: Backoff = TOOL_TRIES
    """The retry schedule of tools that may be retried."""
    records: RecordLimits = RecordLimits()
    """Limits on what a plugin may write into the record of one invocation."""
    scratch_base: str | None = None
    artifacts: str | None = None
    """The folder for files that harnesses hand over, named by digest; without it only digests are kept."""

    def __post_init__(self) -> None:
        # msgspec checks types only when it decodes, and programs call the constructor.
        for name, words in (("sandbox", CLASSES), ("reuse", get_args(Reuse))):
            if (word := getattr(self, name)) not in words:
                raise InvalidSpec(f"{name} is {truncate(word)}; expected one of {', '.join(words)}")
        for name in ("most_processes", "workers"):
            if type(count := getattr(self, name)) is not int or count < 1:
                raise InvalidSpec(f"{name} is {truncate(count)}; expected a whole number of at least 1")
        check_seconds("idle", self.idle)

    @property
    def reserved_workers(self) -> int:
        """Further concurrent invocations of class worker, for organisations of which none is running."""
        return max(1, self.workers // 4)
