"""An export of a vai package, invoked: with its context, permissions, both schemas and records."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Awaitable
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks import payload, timing
from benchmarks.contenders.contender import Caller
from benchmarks.paths import C_ECHO, HERE
from plughost import Host
from plughost.clock import best_clock
from plughost.contracts.vai import manifest
from plughost.vai.bindings.binding import Binding, Scope
from plughost.vai.bindings.package import Package
from plughost.vai.database.open_database import open_database
from plughost.vai.invocations.invocation import Invocation
from plughost.vai.invocations.invoker import LocalInvoker
from plughost.vai.invocations.options import InvokerOptions
from plughost.vai.invocations.outcome import Outcome
from plughost.vai.invocations.requests import ToolRequest
from plughost.vai.records.journal import Journal
from plughost.vai.records.records import Records


def write_package(folder: Path) -> None:
    """The C program as a package: the tools `inline` and `isolated`, and `hook`."""
    shutil.copytree(HERE / "plugins" / "vai_echo", folder)
    os.mkdir(folder / "bin")
    shutil.copy(C_ECHO[0], folder / "bin" / "echo")


class Shelf:
    """The package, as if it were installed."""

    def __init__(self, folder: Path) -> None:
        self._package = Package(
            folder=str(folder), digest="sha256:bench", manifest=manifest.read(folder), trusted_inline=True
        )

    def find(self, package_id: str, version: str) -> Package:
        return self._package


class Invoking(Caller):
    def __init__(
        self, name: str, package: Path, records: Path, export: str, options: InvokerOptions | None = None
    ) -> None:
        self.name = name
        self._shelf = Shelf(package)
        self._records = records
        self._options = options
        self._binding = Binding(
            binding_id=f"bind_{export}",
            package_id="bench/echo",
            package_version="1.0.0",
            export_id=export,
            scope=Scope("org", "project"),
        )

    async def open(self) -> None:
        self._host = Host()
        self._clock = best_clock(asyncio.get_running_loop())
        self._database = open_database(str(self._records))
        self._journal = Journal(str(self._records), Records(self._database), self._clock)
        self._invoker = LocalInvoker(
            self._host, self._shelf, self._journal, self._clock, options=self._options
        )

    async def close(self) -> None:
        await self._invoker.close()
        await self._journal.close()
        await self._database.close()
        await self._host.close()
        self._clock.close()

    def _wanted(self, params: Any, timeout_ms: int | None = None) -> Invocation:
        work = ToolRequest(tool_execution_id="toolx", input=params)
        return Invocation(binding=self._binding, work=work, timeout_ms=timeout_ms)

    def call(self, params: Any, method: str = "echo", *, timeout_ms: int | None = None) -> Awaitable[Outcome]:
        return self._invoker.invoke(self._wanted(params, timeout_ms))

    def text(self, answer: Outcome) -> str:
        assert answer.ok, answer
        text: str = answer.result["structured_output"]["text"]
        return text

    async def one_at_a_time(self, size: int, seconds: float) -> list[float]:
        await self.check(size)
        wanted = self._wanted(payload.params(size))
        times = await timing.one_at_a_time(partial(self._invoker.invoke, wanted), seconds)
        await self._journal.flush()  # nobody else pays for what is still to be copied
        return times
