"""VaiRuntime: the composition root of vai for one folder. Builds the records, tenant state, gateway, invoker,
hook deliveries and hooks."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Self

from plughost.clock import Clock, best_clock
from plughost.contracts.vai.request_bodies import HookEvent
from plughost.host import Host
from plughost.vai.bindings.binding import Scope
from plughost.vai.bindings.bindings import Bindings
from plughost.vai.bindings.package import PackageSource
from plughost.vai.bindings.secret_source import SecretSource
from plughost.vai.gateway.gateway import Gateway
from plughost.vai.gateway.http import HttpLimits
from plughost.vai.invocations.invocation import Invocation, OnEvent
from plughost.vai.invocations.invoker import LocalInvoker
from plughost.vai.invocations.options import InvokerOptions
from plughost.vai.invocations.outcome import Outcome
from plughost.vai.records.database import RecordDatabase
from plughost.vai.records.journal import Journal
from plughost.vai.records.retention import Retention
from plughost.vai.retry_policy import Backoff
from plughost.vai.state.database import TenantState
from plughost.vai.state.deliveries import Deliveries, Delivery
from plughost.vai.state.hooks import Hooks


class VaiRuntime:
    """An `Invoker` with everything it needs, kept in one folder: `async with VaiRuntime(folder, packages,
    bindings)`.

    Entering recovers from an earlier host that was killed: its invocations and runs are recorded as ended,
    its hook deliveries continue, and its scratch folders are removed.
    """

    host: Host
    records: Journal
    invoker: LocalInvoker
    deliveries: Deliveries
    hooks: Hooks

    def __init__(
        self,
        folder: str,
        packages: PackageSource,
        bindings: Bindings,
        *,
        secret_source: SecretSource | None = None,
        options: InvokerOptions | None = None,
        deliveries: Backoff | None = None,
        gateway: HttpLimits | None = None,
        retention: Retention | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._folder = folder
        self._packages = packages
        self._bindings = bindings
        self._secrets = secret_source
        self._options = options
        self._backoff = deliveries
        self._http_limits = gateway
        self._retention = retention
        self._clock = clock
        self._closing = AsyncExitStack()
        self.state = TenantState(folder)

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as stack:
            clock = self._clock or best_clock(asyncio.get_running_loop())
            self.host = Host(clock=clock)
            stack.push_async_callback(self.host.close)
            self.records = await asyncio.to_thread(Journal, self._folder, clock, self._retention)
            stack.push_async_callback(self.records.close)
            stack.callback(self.state.close)
            self.gateway = Gateway(self.state, self.records, self._bindings, self, bounds=self._http_limits)
            stack.push_async_callback(self.gateway.close)
            self.invoker = LocalInvoker(
                self.host,
                self._packages,
                self.records,
                clock,
                secret_source=self._secrets,
                chains=self.state.chains,
                gateway=self.gateway,
                options=self._options,
            )
            stack.push_async_callback(self.invoker.close)
            await asyncio.to_thread(self.invoker.sweep)
            self.deliveries = Deliveries(
                self._folder, self._deliver, clock, serves=self._bindings.serves, backoff=self._backoff
            )
            stack.push_async_callback(self.deliveries.close)
            self.hooks = Hooks(self.state.outbox, self.deliveries, self._bindings, self._packages)
            stack.push_async_callback(self.hooks.close)
            await self._recover()
            self._closing = stack.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._closing.aclose()

    async def invoke(self, invocation: Invocation, on_event: OnEvent | None = None) -> Outcome:
        """Runs one invocation and returns its outcome; see `Invoker.invoke`."""
        return await self.invoker.invoke(invocation, on_event)

    def cancel(self, invocation_id: str, reason: str = "cancelled") -> bool:
        """Cancels a running invocation. False when it has ended already."""
        return self.invoker.cancel(invocation_id, reason)

    async def publish(self, scope: Scope, event: HookEvent) -> None:
        """Publishes an event to the hooks of a project. It is stored durably when this returns."""
        await self.hooks.publish(scope, event)

    async def _deliver(self, delivery: Delivery) -> tuple[str, str | None]:
        return await self.hooks.deliver(self, delivery)

    async def _recover(self) -> None:
        """Recovers from an earlier host: ends its orphaned runs and resumes hook deliveries."""
        if self.state.exists:
            for invocation_id in await self.state.runs.invocations_with_running():
                if await asyncio.to_thread(self._has_ended, invocation_id):
                    await self.state.runs.end_all_of(invocation_id, "failed", "host_ended")
            self.hooks.wake()
        if self.deliveries.exists:
            self.deliveries.start()

    def _has_ended(self, invocation_id: str) -> bool:
        """Whether the record of an invocation has an end. One without a record yet belongs to a live host."""
        with RecordDatabase(self._folder) as database:
            record = database.get(invocation_id)
        return record is not None and record["status"] is not None
