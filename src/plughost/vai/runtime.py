"""VaiRuntime: the composition root of vai for one folder. Builds the records, tenant state, gateway, invoker,
hook deliveries and hooks."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
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
from plughost.vai.database.master_key import MasterKey
from plughost.vai.database.open_database import open_database
from plughost.vai.gateway.gateway import Gateway
from plughost.vai.gateway.http import HttpLimits
from plughost.vai.invocations.invocation import Invocation, OnEvent
from plughost.vai.invocations.invoker import LocalInvoker, StartedInvocation
from plughost.vai.invocations.options import InvokerOptions
from plughost.vai.invocations.outcome import Outcome
from plughost.vai.invocations.signing_key import SigningKeys
from plughost.vai.records.journal import Journal
from plughost.vai.records.records import Records
from plughost.vai.records.recovery import recover
from plughost.vai.records.retention import Retention
from plughost.vai.retry_policy import Backoff
from plughost.vai.state.deliveries import Deliveries
from plughost.vai.state.delivery_table import Delivery
from plughost.vai.state.hooks import Hooks
from plughost.vai.state.leases import LEASE_SECONDS, ProcessLease
from plughost.vai.state.retention import StatePruner
from plughost.vai.state.state import TenantState


class VaiRuntime:
    """An `Invoker` with everything it needs, kept in one folder: `async with VaiRuntime(folder, packages,
    bindings)`. With `database="postgresql://…"` several processes share one database; each has a folder of
    its own for its journal. These processes need the same `master_key` of 32 random bytes, which encrypts
    keys in the database; default: the file master.key in the folder, created for the first delegation token.
    While the master key is replaced, `master_key` is a list: the first encrypts, all of them decrypt.

    Entering recovers from an earlier host that was killed: its invocations and runs are recorded as ended,
    its hook deliveries continue, and its scratch folders are removed.
    """

    host: Host
    journal: Journal
    records: Records
    state: TenantState
    invoker: LocalInvoker
    deliveries: Deliveries
    hooks: Hooks

    def __init__(
        self,
        folder: str,
        packages: PackageSource,
        bindings: Bindings,
        *,
        database: str | None = None,
        master_key: bytes | Sequence[bytes] | None = None,
        secret_source: SecretSource | None = None,
        options: InvokerOptions | None = None,
        deliveries: Backoff | None = None,
        gateway: HttpLimits | None = None,
        retention: Retention | None = None,
        lease: float = LEASE_SECONDS,
        clock: Clock | None = None,
    ) -> None:
        self._folder = folder
        self._packages = packages
        self._bindings = bindings
        self._url = database
        self._master_key = MasterKey(folder, master_key)
        self._secrets = secret_source
        self._options = options
        self._backoff = deliveries
        self._http_limits = gateway
        self._retention = retention
        self._lease_seconds = lease
        self._clock = clock
        self._closing = AsyncExitStack()

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as stack:
            clock = self._clock or best_clock(asyncio.get_running_loop())
            self.host = Host(clock=clock)
            stack.push_async_callback(self.host.close)
            self.database = open_database(self._folder, self._url)
            stack.push_async_callback(self.database.close)
            self.records = Records(self.database)
            retention = self._retention or Retention()
            await recover(self._folder, self.database, retention)
            pruners = [StatePruner(self.database, retention)]
            self.journal = Journal(self._folder, self.records, clock, retention, pruners)
            stack.push_async_callback(self.journal.close)
            self.lease = ProcessLease(self.database, self.journal.host, clock, self._lease_seconds)
            stack.push_async_callback(self.lease.close)
            self.state = TenantState(self.database)
            self.signing_keys = SigningKeys(self.database, self._master_key)
            self.gateway = Gateway(
                self.state,
                self.journal,
                self._bindings,
                self,
                self.signing_keys,
                bounds=self._http_limits,
            )
            stack.push_async_callback(self.gateway.close)
            self.invoker = LocalInvoker(
                self.host,
                self._packages,
                self.journal,
                clock,
                secret_source=self._secrets,
                chains=self.state.chains,
                gateway=self.gateway,
                options=self._options,
            )
            stack.push_async_callback(self.invoker.close)
            await asyncio.to_thread(self.invoker.sweep)
            self.deliveries = Deliveries(
                self.database,
                self.lease,
                self._deliver,
                clock,
                bindings=self._bindings,
                backoff=self._backoff,
            )
            stack.push_async_callback(self.deliveries.close)
            self.hooks = Hooks(
                self.database, self.state.outbox, self.deliveries, self._bindings, self._packages, clock
            )
            stack.push_async_callback(self.hooks.close)
            if self.database.dialect == "postgresql":  # so that others notice when this process is gone
                await self.lease.acquire()
            self.hooks.wake()
            self.deliveries.start()
            self._closing = stack.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._closing.aclose()

    async def invoke(self, invocation: Invocation, on_event: OnEvent | None = None) -> Outcome:
        """Runs one invocation and returns its outcome; see `Invoker.invoke`."""
        return await self.invoker.invoke(invocation, on_event)

    async def start(
        self, invocation: Invocation, on_event: OnEvent | None = None, *, key: str | None = None
    ) -> StartedInvocation:
        """Starts an invocation without waiting for its outcome; see `LocalInvoker.start`."""
        return await self.invoker.start(invocation, on_event, key=key)

    def cancel(self, invocation_id: str, reason: str = "cancelled") -> bool:
        """Cancels a running invocation. False when it has ended already."""
        return self.invoker.cancel(invocation_id, reason)

    async def publish(self, scope: Scope, event: HookEvent) -> None:
        """Publishes an event to the hooks of a project. It is stored durably when this returns."""
        await self.hooks.publish(scope, event)

    async def _deliver(self, delivery: Delivery) -> tuple[str, str | None]:
        return await self.hooks.deliver(self, delivery)
