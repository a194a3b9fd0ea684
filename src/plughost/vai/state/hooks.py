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
        self, happened: Outbox, deliveries: Deliveries, bindings: Bindings, packages: PackageSource
    ) -> None:
        self._happened = happened
        self._deliveries = deliveries
        self._bindings = bindings
        self._packages = packages
        self._handing: asyncio.Task[None] | None = None
        self._again = False
        self._closed = False
        happened.announce = self.soon

    async def publish(self, scope: Scope, event: HookEvent) -> None:
        """Stores an event in the outbox; it is delivered later."""
        await self._happened.tell(scope, event)

    def soon(self) -> None:
        """Wakes the task that empties the outbox."""
        if self._closed:
            return  # it is kept, and the next host's
        if self._handing is not None:
            self._again = True
            return
        self._handing = asyncio.get_running_loop().create_task(self._hand_over())
        self._handing.add_done_callback(self._handed)

    async def close(self) -> None:
        """Waits until the outbox is not being read any more."""
        self._closed = True
        if self._handing is not None:
            await asyncio.wait([self._handing])

    def _handed(self, task: asyncio.Task[None]) -> None:
        self._handing = None
        error = None if task.cancelled() else task.exception()
        if error is not None:
            told = {"message": "events wait for another look", "exception": error}
            asyncio.get_running_loop().call_exception_handler(told)
        if self._again:
            self._again = False
            self.soon()

    async def _hand_over(self) -> None:
        last = 0
        while not self._closed and (waiting := await self._happened.waiting(last)):
            last = waiting[-1].number
            for kept in waiting:
                if not self._bindings.serves(kept.scope):
                    continue  # the host that does finds it here
                subscribers = [
                    binding.binding_id
                    for binding in self._bindings.of(kept.scope)
                    if self._would_hear(binding, kept.event.type)
                ]
                if subscribers:
                    await self._deliveries.publish(kept.event, subscribers, kept.scope)
                    self._deliveries.start()
                await self._happened.done(kept.number)

    def _would_hear(self, binding: Binding, kind: str) -> bool:
        try:
            return self._subscribes(binding, kind)
        except (InvalidSpec, PackageRefused):
            return False  # nobody knows any more what it wanted to hear

    def _subscribes(self, binding: Binding, kind: str) -> bool:
        package = self._packages.find(binding.package_id, binding.package_version)
        export = package.manifest.export(binding.export_id)
        return export is not None and export.hook is not None and kind in export.hook.subscribes_to

    async def deliver(self, invoker: Invoker, delivery: Delivery) -> tuple[str, str | None]:
        """Makes one delivery attempt. Returns the status of its invocation, and why it is not `succeeded`."""
        binding = self._bindings.by_id(delivery.binding_id)
        if binding is None:
            return "failed", f"the binding {delivery.binding_id} is gone"
        if binding.scope not in (Scope(delivery.org_id), delivery.scope):
            return "failed", f"the binding {delivery.binding_id} is another tenant's"
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
