"""The typed client of a vai process: invokes tools, hooks, compactors and harnesses, with the events of each
call."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, Protocol

import msgspec

from plughost._util.nearest import did_you_mean
from plughost.contracts.plugin_calls import PluginCalls
from plughost.contracts.vai.manifest import Export, VaiManifest
from plughost.contracts.vai.messages import OPS
from plughost.contracts.vai.request_bodies import Body, CompactorBody, HarnessBody, HookBody, ToolBody
from plughost.contracts.vai.results import (
    CompactorResult,
    ExportOutcome,
    HarnessResult,
    ResultProblem,
    ToolResult,
    outcome,
)
from plughost.errors import Malformed, UnknownMethod
from plughost.wire.messages import decode

Event = dict[str, Any]
"""A progress event of a running request, such as `{"type": "progress", "message": "half of it"}`."""
EventCallback = Callable[[Event], object]


class VaiPlugin(PluginCalls, Protocol):
    """The part of `plughost.Plugin` that the vai client uses."""

    name: str

    @property
    def settings(self) -> Any: ...


class Vai:
    """A typed client of one process of a package."""

    def __init__(self, plugin: VaiPlugin) -> None:
        self._plugin = plugin

    @property
    def manifest(self) -> VaiManifest:
        """The manifest of the package."""
        manifest: VaiManifest = self._plugin.settings.manifest
        return manifest

    async def tool(
        self, body: ToolBody, *, timeout: float | None = None, on_event: EventCallback | None = None
    ) -> ExportOutcome[ToolResult]:
        """Invokes a tool: `tool.invoke`."""
        return await self.invoke("tool.invoke", body, timeout=timeout, on_event=on_event)

    async def hook(
        self, body: HookBody, *, timeout: float | None = None, on_event: EventCallback | None = None
    ) -> ExportOutcome[None]:
        """Delivers an event to a hook: `hook.handle`. The hook's `ack` counts as success."""
        return await self.invoke("hook.handle", body, timeout=timeout, on_event=on_event)

    async def compact(
        self, body: CompactorBody, *, timeout: float | None = None, on_event: EventCallback | None = None
    ) -> ExportOutcome[CompactorResult]:
        """Runs a compactor: `compactor.compact`."""
        return await self.invoke("compactor.compact", body, timeout=timeout, on_event=on_event)

    async def run(
        self, body: HarnessBody, *, timeout: float | None = None, on_event: EventCallback | None = None
    ) -> ExportOutcome[HarnessResult]:
        """Runs a harness: `harness.run`."""
        return await self.invoke("harness.run", body, timeout=timeout, on_event=on_event)

    async def invoke(
        self, op: str, body: Body, *, timeout: float | None = None, on_event: EventCallback | None = None
    ) -> ExportOutcome[Any]:
        """Sends a request to an export and returns its outcome. Default timeout: the export's own.

        Raises Timeout after that; the plugin is sent a cancel, as it is when the waiting task is cancelled.
        Raises CallFailed for `ok: false`, Malformed for a result of another shape, and CollateralFailure when
        the process was stopped because of another call.
        """
        export = self._export(op, body)
        answer: msgspec.Raw = await self._plugin.call(
            op,
            body,
            timeout=export.default_timeout_ms / 1000 if timeout is None else timeout,
            type=msgspec.Raw,
            on_event=None if on_event is None else lambda event: on_event(decode(event)),
        )
        try:
            return outcome(op, answer)
        except Malformed as error:
            error.plugin = self._plugin.name
            raise

    @asynccontextmanager
    async def running(
        self, op: str, body: Body, *, timeout: float | None = None
    ) -> AsyncIterator[RunningRequest]:
        """Starts a request and yields it, so that its events can be iterated over. Leaving the context early
        cancels it."""
        events: asyncio.Queue[Event | None] = asyncio.Queue()
        task = asyncio.create_task(self.invoke(op, body, timeout=timeout, on_event=events.put_nowait))
        task.add_done_callback(lambda _: events.put_nowait(None))
        try:
            yield RunningRequest(task, events)
        finally:
            if not task.done():
                task.cancel("cancelled")
            await asyncio.wait([task])
            if not task.cancelled():
                task.exception()  # left early: the failure is not of interest, but must be retrieved

    def _export(self, op: str, body: Body) -> Export:
        served: tuple[Export, ...] = self._plugin.settings.served
        export = next((each for each in served if each.id == body.export_id), None)
        if export is None or OPS[export.kind] != op:
            raise UnknownMethod(
                f"it has no export {body.export_id!r:.100} for {op}"
                + did_you_mean(body.export_id, [each.id for each in served if OPS[each.kind] == op]),
                plugin=self._plugin.name,
            )
        return export


class RunningRequest:
    """A request in progress: iterate over its events, then await its outcome."""

    def __init__(self, task: asyncio.Task[ExportOutcome[Any]], events: asyncio.Queue[Event | None]) -> None:
        self._task = task
        self._events = events
        self._reason: str | None = None

    async def __aiter__(self) -> AsyncIterator[Event]:
        while (event := await self._events.get()) is not None:
            yield event
        self._events.put_nowait(None)

    async def outcome(self) -> ExportOutcome[Any]:
        """Waits for the outcome. After `cancel` it is `cancelled`, unless the plugin had answered."""
        await asyncio.wait([self._task])
        if self._reason is not None and self._task.cancelled():
            return ExportOutcome("cancelled", None, ResultProblem("cancelled", self._reason))
        return self._task.result()

    def cancel(self, reason: str) -> None:
        """Sends a cancel to the plugin; the outcome is `cancelled`, unless the plugin has answered
        already."""
        self._reason = reason
        self._task.cancel(reason)
