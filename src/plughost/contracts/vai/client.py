"""vai in its own words: tools, hooks, compactors and harnesses of a package, with the events of each call."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, Protocol

import msgspec

from plughost.contracts.vai.manifest import Export, VaiManifest
from plughost.contracts.vai.messages import OPS
from plughost.contracts.vai.request_bodies import Body, CompactorBody, HarnessBody, HookBody, ToolBody
from plughost.contracts.vai.results import (
    CompactorResult,
    HarnessResult,
    HookOutcome,
    ResultProblem,
    ToolResult,
    outcome,
)
from plughost.errors import Malformed, UnknownMethod
from plughost.wire.messages import decode

Event = dict[str, Any]
"""What a plugin says while it works, such as `{"type": "progress", "message": "half of it"}`."""
Hear = Callable[[Event], object]


class VaiPlugin(Protocol):
    name: str

    @property
    def settings(self) -> Any: ...

    async def call(
        self,
        method: str,
        params: Any = ...,
        *,
        timeout: float | None = ...,
        type: Any = ...,
        on_event: Any = ...,
    ) -> Any: ...


class Vai:
    """A typed view of one process of a package."""

    def __init__(self, plugin: VaiPlugin) -> None:
        self._plugin = plugin

    @property
    def manifest(self) -> VaiManifest:
        manifest: VaiManifest = self._plugin.settings.manifest
        return manifest

    async def tool(
        self, body: ToolBody, *, timeout: float | None = None, on_event: Hear | None = None
    ) -> HookOutcome[ToolResult]:
        return await self.invoke("tool.invoke", body, timeout=timeout, on_event=on_event)

    async def hook(
        self, body: HookBody, *, timeout: float | None = None, on_event: Hear | None = None
    ) -> HookOutcome[None]:
        """Its `ack` is a success."""
        return await self.invoke("hook.handle", body, timeout=timeout, on_event=on_event)

    async def compact(
        self, body: CompactorBody, *, timeout: float | None = None, on_event: Hear | None = None
    ) -> HookOutcome[CompactorResult]:
        return await self.invoke("compactor.compact", body, timeout=timeout, on_event=on_event)

    async def run(
        self, body: HarnessBody, *, timeout: float | None = None, on_event: Hear | None = None
    ) -> HookOutcome[HarnessResult]:
        return await self.invoke("harness.run", body, timeout=timeout, on_event=on_event)

    async def invoke(
        self, op: str, body: Body, *, timeout: float | None = None, on_event: Hear | None = None
    ) -> HookOutcome[Any]:
        """What an export makes of a body. Without a timeout its own default applies.

        Timeout past that: the plugin is told to stop, as it is when the task that waits here is cancelled.
        CallFailed for `ok: false`, Malformed for a result of another shape, Collateral when the process was
        ended for another call's sake.
        """
        export = self._export(op, body)
        answer: msgspec.Raw = await self._plugin.call(
            op,
            body,
            timeout=export.default_timeout_ms / 1000 if timeout is None else timeout,
            type=msgspec.Raw,
            on_event=None if on_event is None else lambda said: on_event(decode(said)),
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
        """The same, with its events to be iterated over while it runs. Left early, it is cancelled."""
        said: asyncio.Queue[Event | None] = asyncio.Queue()
        task = asyncio.create_task(self.invoke(op, body, timeout=timeout, on_event=said.put_nowait))
        task.add_done_callback(lambda _: said.put_nowait(None))
        try:
            yield RunningRequest(task, said)
        finally:
            if not task.done():
                task.cancel("cancelled")
            await asyncio.wait([task])
            if not task.cancelled():
                task.exception()  # whoever left early does not want to know

    def _export(self, op: str, body: Body) -> Export:
        served: tuple[Export, ...] = self._plugin.settings.served
        export = next((each for each in served if each.id == body.export_id), None)
        if export is None or OPS[export.kind] != op:
            raise UnknownMethod(
                f"it has no export {body.export_id!r:.100} for {op}", plugin=self._plugin.name
            )
        return export


class RunningRequest:
    """A call under way: iterate over its events, then ask for its outcome."""

    def __init__(self, task: asyncio.Task[HookOutcome[Any]], said: asyncio.Queue[Event | None]) -> None:
        self._task = task
        self._said = said
        self._reason: str | None = None

    async def __aiter__(self) -> AsyncIterator[Event]:
        while (event := await self._said.get()) is not None:
            yield event
        self._said.put_nowait(None)

    async def outcome(self) -> HookOutcome[Any]:
        await asyncio.wait([self._task])
        if self._reason is not None and self._task.cancelled():
            return HookOutcome("cancelled", None, ResultProblem("cancelled", self._reason))
        return self._task.result()

    def cancel(self, reason: str) -> None:
        """Tell the plugin to stop; the outcome is `cancelled`, unless it has answered already."""
        self._reason = reason
        self._task.cancel(reason)
