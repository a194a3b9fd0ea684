"""A tool of a vai package, called with nothing around it: no permissions, schemas, slots or records."""

from __future__ import annotations

from collections.abc import Awaitable
from pathlib import Path
from typing import Any

import msgspec

from benchmarks.contenders.contender import Caller
from benchmarks.contenders.ours import TIMEOUT
from plughost import Host
from plughost.contracts.vai.client import Vai
from plughost.contracts.vai.contract import spec_of
from plughost.contracts.vai.request_bodies import GatewayAccess, RequestContext, ToolBody
from plughost.contracts.vai.results import ExportOutcome, ToolResult

CONTEXT = RequestContext(
    invocation_id="inv_1",
    trace_id="trace_1",
    org_id="org",
    project_id="project",
    session_id=None,
    chain_id=None,
    run_id=None,
    deadline_at="2026-03-12T20:00:00Z",
    scratch_dir=None,
    gateway=GatewayAccess(base_url="https://gateway.invalid"),
)


class VaiCall(Caller):
    def __init__(self, name: str, package: Path, export: str) -> None:
        self.name = name
        self._package = package
        self._export = export

    async def open(self) -> None:
        self._host = Host()
        spec = msgspec.structs.replace(spec_of(self._package), sandbox="strict")
        self._vai = Vai(await self._host.add(spec))

    async def close(self) -> None:
        await self._host.close()

    def call(self, params: Any, method: str = "echo") -> Awaitable[ExportOutcome[ToolResult]]:
        body = ToolBody(export_id=self._export, context=CONTEXT, tool_execution_id="toolx", input=params)
        return self._vai.tool(body, timeout=TIMEOUT)

    def text(self, answer: Any) -> str:
        assert answer.status == "succeeded", answer
        text: str = answer.result.structured_output["text"]
        return text
