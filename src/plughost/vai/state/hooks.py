"""Hooks: matches events in the outbox with subscribed bindings, and delivers them by invocations."""

from __future__ import annotations

import asyncio

from plughost.contracts.vai.request_bodies import HookEvent
from plughost.errors import InvalidSpec
from plughost.vai.bindings.binding import Binding, Scope
from plughost.vai.bindings.bindings import Bindings
from plughost.vai.bindings.package import PackageSource
from plughost.vai.invocations.invocation import Invocation, Invoker, Related
from plughost.vai.invocations.requests import HookRequest
from plughost.vai.packages.errors import PackageRefused
from plughost.vai.state.deliveries import Deliveries, Delivery
from plughost.vai.state.outbox import Outbox


class Hooks:
    """Moves events from the outbox to `deliveries`, for each binding whose export subscribes to them."""

    def __init__(
        self, outbox: Outbox, deliveries: Deliveries, bindings: Bindings, packages: PackageSource
    ) -> None:
        self._outbox = outbox
        self._deliveries = deliveries
        self._bindings = bindings
        self._packages = packages
        self._task: asyncio.Task[None] | None = None
        self._wake_again = False
        self._closed = False
        outbox.announce = self.wake

    async def publish(self, scope: Scope, event: HookEvent) -> None:
        """Stores an event in the outbox; it is delivered later."""
        await self._outbox.add(scope, event)

    def wake(self) -> None:
        """Wakes the task that empties the outbox."""
        if self._closed:
            return  # events stay in the outbox for the next host
        if self._task is not None:
            self._wake_again = True
            return
        self._task = asyncio.get_running_loop().create_task(self._drain_outbox())
        self._task.add_done_callback(self._on_drained)

    async def close(self) -> None:
        """Waits until the outbox is not being read any more."""
        self._closed = True
        if self._task is not None:
            await asyncio.wait([self._task])

    def _on_drained(self, task: asyncio.Task[None]) -> None:
        self._task = None
        error = None if task.cancelled() else task.exception()
        if error is not None:
            context = {"message": "events are waiting for the next check", "exception": error}
            asyncio.get_running_loop().call_exception_handler(context)
        if self._wake_again:
            self._wake_again = False
            self.wake()

    async def _drain_outbox(self) -> None:
        last = 0
        while not self._closed and (waiting := await self._outbox.waiting(last)):
            last = waiting[-1].number
            for stored in waiting:
                if not self._bindings.serves(stored.scope):
                    continue  # the host that serves this tenant finds it here
                subscribers = [
                    binding.binding_id
                    for binding in self._bindings.of(stored.scope)
                    if self._may_subscribe(binding, stored.event.type)
                ]
                if subscribers:
                    await self._deliveries.publish(stored.event, subscribers, stored.scope)
                    self._deliveries.start()
                await self._outbox.done(stored.number)

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
