"""FairLimit: a concurrency limit that tenants share fairly, and within a tenant its bindings."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import NamedTuple

from plughost.vai.fair_share import FairShare


class FairLimit:
    """Limits concurrency to `slots`, plus `reserved` ones for tenants that have none. A freed slot goes to
    the tenant with the fewest, within a tenant to the binding with the fewest, and there to the first in the
    queue; `FairShare` has the rule.

    A slot that somebody waits for and may have is granted as soon as it is free. So one that takes a slot
    without waiting overtakes nobody.
    """

    def __init__(self, slots: int, reserved: int) -> None:
        self._share: FairShare[str] = FairShare(slots, reserved)
        self._waiting: dict[BindingShare, deque[asyncio.Future[None]]] = {}

    def __len__(self) -> int:
        """The number of those who wait for a slot."""
        return sum(map(len, self._waiting.values()))

    def of(self, tenant: str, binding_id: str) -> BindingShare:
        """The limit as one binding sees it."""
        return BindingShare(self, self._share, tenant, binding_id)

    async def wait(self, binding: BindingShare) -> None:
        """Waits until a slot is granted."""
        waiter = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(binding, deque()).append(waiter)
        try:
            await waiter
        except asyncio.CancelledError:
            if not waiter.cancelled():
                binding.leave()  # the slot was granted at that moment: pass it on
            else:
                self._remove(binding, waiter)
            raise

    def _remove(self, binding: BindingShare, waiter: asyncio.Future[None]) -> None:
        queue = self._waiting.get(binding)
        if queue is not None and waiter in queue:  # `grant` may have removed it already
            queue.remove(waiter)
            if not queue:
                del self._waiting[binding]

    def grant(self) -> None:
        """Grants what is free to those who wait."""
        while self._waiting:
            binding = min(self._waiting, key=BindingShare.load)
            queue = self._waiting[binding]
            while queue and queue[0].done():  # cancelled, and not yet removed by its task
                queue.popleft()
            if queue:
                if not binding.enter_now():
                    return  # nor is one free for the others, whose tenants have as many slots or more
                queue.popleft().set_result(None)
            if not queue:
                del self._waiting[binding]


class BindingShare(NamedTuple):
    """A `FairLimit` as one binding sees it: the parent of the binding's `ConcurrencyLimit`. All of one limit,
    tenant and binding are equal."""

    limit: FairLimit
    share: FairShare[str]
    tenant: str
    binding_id: str

    def load(self) -> tuple[int, int, int, int]:
        """See `FairShare.load`."""
        return self.share.load(self.tenant, self.binding_id)

    def enter_now(self) -> bool:
        """Takes a slot without waiting; False when none is free for that tenant."""
        return self.share.enter(self.tenant, self.binding_id)

    async def enter(self) -> None:
        """Takes a slot, and waits for it when none is free."""
        if not self.enter_now():
            await self.limit.wait(self)

    def leave(self) -> None:
        """Frees the slot, for whoever is next."""
        self.share.leave(self.tenant, self.binding_id)
        self.limit.grant()
