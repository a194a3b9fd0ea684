"""InvokerOptions: how a host executes invocations."""

from __future__ import annotations

import msgspec

from plughost.permissions.access import ResourceLimits
from plughost.vai.bindings.binding import BindingPolicy
from plughost.vai.records.retention import RecordLimits
from plughost.vai.retry_policy import TOOL_TRIES, Backoff


class InvokerOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of how a host executes invocations."""

    policy: BindingPolicy = BindingPolicy()
    """The host's own policy: the most that any binding may be granted."""
    limits: ResourceLimits = ResourceLimits()
    sandbox: str = "strict"
    reuse: str = "binding"
    """Whether an isolated process serves its `binding`, or only one `invocation`."""
    most_processes: int = 64
    workers: int = 4
    """Concurrent invocations of class worker (background work), over all bindings."""
    idle: float = 300.0
    """Seconds after which an unused process is stopped."""
    tries: Backoff = TOOL_TRIES
    """The retry schedule of tools that may be retried."""
    records: RecordLimits = RecordLimits()
    """Limits on what a plugin may write into the record of one invocation."""
    scratch_base: str | None = None
    artifacts: str | None = None
    """The folder for files that harnesses hand over, named by digest; without it only digests are kept."""
