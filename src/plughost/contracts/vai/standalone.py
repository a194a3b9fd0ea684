"""Standalone requests: invoke an export with a minimal context and without a gateway."""

from __future__ import annotations

import itertools
from datetime import UTC, datetime, timedelta
from typing import Any

from plughost.contracts.vai.manifest import Export, VaiManifest
from plughost.contracts.vai.messages import OPS
from plughost.contracts.vai.request_bodies import GatewayAccess, RequestContext
from plughost.errors import InvalidSpec
from plughost.wire.messages import ABSENT

SCRATCH = "/tmp"
"""The scratch folder: private to a sandboxed plugin; without a sandbox it is the shared /tmp."""


class StandaloneRequest:
    """Builds the requests for the exports of one package."""

    def __init__(self, manifest: VaiManifest) -> None:
        self._manifest = manifest
        self._numbers = itertools.count(1)

    def request(self, id: str, params: Any) -> tuple[str, Any]:
        """The op and the body for an export. `params` are a tool's input, a hook's event, or else the members
        of the body that are specific to the kind."""
        export = self._manifest.export(id)
        if export is None:
            raise InvalidSpec(f"it has no export {id!r:.100}")
        given = {} if params is ABSENT or params is None else params
        number = next(self._numbers)
        body: dict[str, Any] = {"export_id": id, "context": _context(export, number)}
        if export.kind == "tool":
            body |= {"tool_execution_id": f"toolx_local_{number}", "input": given}
        elif export.kind == "hook":
            body |= {"delivery_id": f"del_local_{number}", "attempt": 1, "event": given}
        elif isinstance(given, dict):
            body |= given
        else:
            raise InvalidSpec(f"a {export.kind} takes an object with the members of its request")
        return OPS[export.kind], {**body, "config": {}, "secrets": {}}


def _context(export: Export, number: int) -> RequestContext:
    deadline = datetime.now(UTC) + timedelta(milliseconds=export.default_timeout_ms)
    return RequestContext(
        invocation_id=f"inv_local_{number}",
        trace_id=f"tr_local_{number}",
        org_id="local",
        project_id="local",
        session_id=None,
        chain_id=None,
        run_id=None,
        deadline_at=deadline.strftime("%Y-%m-%dT%H:%M:%SZ"),
        scratch_dir=SCRATCH if export.permissions.filesystem == "scratch" else None,
        gateway=GatewayAccess(base_url="http://gateway.invalid"),
    )
