"""Hooks: matches events in the outbox with subscribed bindings, and delivers them by invocations."""

from __future__ import annotations

import time
from collections.abc import Collection

from plughost.clock import Clock
from plughost.contracts.vai.request_bodies import HookEvent
from plughost.errors import InvalidSpec
from plughost.vai.background import BackgroundTask
from plughost.vai.bindings.binding import Binding, Scope
from plughost.vai.bindings.bindings import Bindings
from plughost.vai.bindings.package import PackageSource
from plughost.vai.database.database import Database, Steps
from plughost.vai.database.statements import Row
from plughost.vai.invocations.invocation import Invocation, Invoker, Related
from plughost.vai.invocations.requests import HookRequest
from plughost.vai.packages.errors import PackageRefused
from plughost.vai.state.deliveries import CHANNEL as DELIVERIES
from plughost.vai.state.deliveries import Deliveries
from plughost.vai.state.delivery_table import Delivery, insert, new_delivery_id
from plughost.vai.state.outbox import (
    CHANNEL,
    DONE,
    PAGE_SIZE,
    WAITING,
    WAITING_OF,
    WAITING_OF_ORG,
    Outbox,
    OutboxEvent,
    outbox_event,
)
from plughost.vai.state.tenant_columns import columns

LOOK_SECONDS = 5.0
"""Seconds between looks for events of a process that was killed before it could tell others."""


class Hooks:
    """Hands events from the outbox to `deliveries`, for each binding whose export subscribes to them."""

    def __init__(
        self,
        database: Database,
        outbox: Outbox,
        deliveries: Deliveries,
        bindings: Bindings,
        packages: PackageSource,
        clock: Clock,
    ) -> None:
        self._database = database
        self._outbox = outbox
        self._deliveries = deliveries
        self._bindings = bindings
        self._packages = packages
        self._closed = False
        self._task = BackgroundTask(
            self._drain_outbox,
            clock,
            failure="events are waiting for the next check",
            retry_seconds=LOOK_SECONDS,
        )
        database.listen(CHANNEL, self.wake)

    async def publish(self, scope: Scope, event: HookEvent) -> None:
        """Stores an event in the outbox; it is delivered later."""
        await self._outbox.add(scope, event)

    def wake(self) -> None:
        """Wakes the task that empties the outbox."""
        self._task.wake()

    async def close(self) -> None:
        """Waits until the outbox is not being read any more. Events stay in it for the next host."""
        self._closed = True
        await self._task.close()

    async def _drain_outbox(self) -> float:
        after = 0
        while not self._closed:
            waiting = await self._database.read(_waiting, self._bindings.scopes(), after)
            if not waiting:
                break
            after = waiting[-1].number
            subscribers = {
                stored.number: (
                    stored.scope,
                    [
                        binding.binding_id
                        for binding in self._bindings.of(stored.scope, stored.event.subject.id)
                        if self._may_subscribe(binding, stored.event.type)
                    ],
                )
                for stored in waiting
                if self._bindings.serves(stored.scope)  # else the host that serves this tenant finds it here
            }
            if stored_for := await self._database.write(_hand_over, subscribers, time.time()):
                self._deliveries.start()
                self._deliveries.expect(stored_for)
                self._database.announce(DELIVERIES)
        return LOOK_SECONDS

    def _may_subscribe(self, binding: Binding, kind: str) -> bool:
        try:
            return self._subscribes(binding, kind)
        except (InvalidSpec, PackageRefused):
            return False  # its manifest, with the subscriptions, cannot be read any more

    def _subscribes(self, binding: Binding, kind: str) -> bool:
        package = self._packages.find(binding.package_id, binding.package_version)
        export = package.manifest.export(binding.export_id)
        return export is not None and export.hook is not None and kind in export.hook.subscribes_to

    async def deliver(self, invoker: Invoker, delivery: Delivery) -> tuple[str, str | None]:
        """Makes one delivery attempt. Returns the status of its invocation, and why it is not `succeeded`."""
        binding = self._bindings.by_id(delivery.binding_id)
        if binding is None:
            return "failed", f"the binding {delivery.binding_id} no longer exists"
        if binding.scope not in (Scope(delivery.org_id), delivery.scope):
            return "failed", f"the binding {delivery.binding_id} belongs to another tenant"
        event = delivery.event
        invocation = Invocation(
            binding=binding,
            work=HookRequest(delivery_id=delivery.delivery_id, attempt=delivery.attempt, event=event),
            related=Related(
                chain_id=event.subject.id if event.subject.kind == "chain" else None,
                run_id=event.subject.id if event.subject.kind == "run" else None,
                project_id=delivery.project_id,
            ),
        )
        try:
            if not self._subscribes(binding, event.type):
                return "failed", f"the binding {delivery.binding_id} does not subscribe to {event.type}"
            outcome = await invoker.invoke(invocation)
        except InvalidSpec as error:  # no later attempt could begin either
            return "failed", error.message
        return outcome.status, outcome.message or outcome.reason


def _waiting(scopes: Collection[Scope] | None, after: int) -> Steps[list[OutboxEvent]]:
    """The first events that wait after that number, of those tenants."""
    if scopes is None:
        queries = [WAITING(after=after, limit=PAGE_SIZE)]
    else:
        whole = {scope.org_id for scope in scopes if scope.project_id is None}
        queries = [WAITING_OF_ORG(org_id=org_id, after=after, limit=PAGE_SIZE) for org_id in whole]
        queries += [
            WAITING_OF(**columns(scope), after=after, limit=PAGE_SIZE)
            for scope in scopes
            if scope.org_id not in whole
        ]
    rows: list[Row] = []
    for query in queries:
        rows += (yield query).rows
    rows.sort(key=lambda row: row["number"])
    return [outbox_event(row) for row in rows[:PAGE_SIZE]]


def _hand_over(subscribers: dict[int, tuple[Scope, list[str]]], now: float) -> Steps[set[str]]:
    """Stores the deliveries of events that no other process has handed over, and returns their bindings."""
    mine = (yield DONE.each({"number": number} for number in subscribers)).rows
    rows = [
        (new_delivery_id(), binding_id, subscribers[row["number"]][0], row["number"])
        for row in sorted(mine, key=lambda row: row["number"])
        for binding_id in subscribers[row["number"]][1]
    ]
    if rows:
        yield insert(rows, now)
    return {binding_id for _, binding_id, _, _ in rows}
