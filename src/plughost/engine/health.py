"""Health checks: asks a running plugin at intervals whether it is well, and kills it when no answer comes.

A plugin that works on one call at a time answers the health request after all earlier calls. So the time to
answer starts when the last of those is answered or its deadline has passed, also when its caller has gone: a
busy plugin is not unhealthy, and a hung one is found.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from plughost.clock import Clock
from plughost.engine.peer import Peer
from plughost.engine.pending_call import PendingCall
from plughost.engine.policy import HealthPolicy
from plughost.engine.session import Session
from plughost.engine.timer import OneShotTimer
from plughost.errors import PluginError, Timeout
from plughost.wire.ledger import FOREVER


class HealthCheck:
    """The health checks of one process from its start to its end. Uses the instance's only timer, which
    nothing else uses meanwhile."""

    __slots__ = (
        "_busy_until",
        "_clock",
        "_ended",
        "_health",
        "_last_request",
        "_on_unhealthy",
        "_peer",
        "_session",
        "_timer",
    )

    def __init__(
        self,
        health: HealthPolicy,
        session: Session,
        peer: Peer,
        timer: OneShotTimer,
        clock: Clock,
        on_unhealthy: Callable[[PluginError], None],
    ) -> None:
        self._health = health
        self._session = session
        self._peer = peer
        self._timer = timer
        self._clock = clock
        self._on_unhealthy = on_unhealthy
        self._ended = False
        self._last_request = clock.time()
        """When the last health request was sent."""
        self._busy_until = self._last_request
        """Until when it may be busy with calls that were abandoned before the last health request."""
        self._schedule_next()

    def end(self) -> None:
        """Stop checking."""
        self._ended = True

    def _schedule_next(self) -> None:
        self._timer.at(
            max(self._last_request + self._health.interval, self._clock.time()), self._send_request
        )

    def _send_request(self) -> None:
        self._last_request = self._clock.time()
        request = self._session.health_request()
        if request is None:
            return  # this contract has no health request: to run is to be well
        earlier_calls = {call: call.deadline for call in self._peer.in_flight_calls()}
        self._busy_until = self._peer.busy_until()
        probe = self._peer.ask_now(*request, timeout=FOREVER)
        if probe is None:
            self._schedule_next()
            return
        probe.add_done_callback(self._answered)

        def settled(call: asyncio.Future[Any]) -> None:
            """An earlier call was answered, or timed out. A withdrawn call still keeps the plugin busy."""
            if not call.cancelled() and isinstance(call, PendingCall):
                earlier_calls[call] = min(earlier_calls[call], self._clock.time())
                if not (self._ended or probe.done()):
                    self._set_deadline(probe, earlier_calls)

        for call in earlier_calls:
            call.add_done_callback(settled)
        self._set_deadline(probe, earlier_calls)

    def _set_deadline(self, probe: PendingCall, earlier_calls: dict[PendingCall, float]) -> None:
        start = max([self._busy_until, *earlier_calls.values()])
        if start < FOREVER:
            within = self._health.within
            message = f"it did not answer {probe.method!r} within {within:g} s"
            self._timer.at(start + within, lambda: self._on_unhealthy(Timeout(message)))

    def _answered(self, probe: asyncio.Future[Any]) -> None:
        if probe.cancelled() or probe.exception() is not None or self._ended:
            return  # the process has ended, which the instance handles
        self._session.on_health_response(probe.result())
        self._schedule_next()
