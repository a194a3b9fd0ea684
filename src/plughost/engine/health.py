"""Looks after the health of a running plugin: asks at intervals, and notices when no answer comes.

A plugin that does one thing after another answers behind the calls it was given before. So the time to
answer starts when the last of those is answered or should have been, also when its caller has gone: a busy
plugin is not sick, and a hung one is found.
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
    """From the start of a process to its end. Uses the instance's one `due`, which nothing else does then."""

    __slots__ = ("_busy_until", "_clock", "_due", "_ended", "_health", "_peer", "_session", "_sick", "_since")

    def __init__(
        self,
        health: HealthPolicy,
        session: Session,
        peer: Peer,
        due: OneShotTimer,
        clock: Clock,
        sick: Callable[[PluginError], None],
    ) -> None:
        self._health = health
        self._session = session
        self._peer = peer
        self._due = due
        self._clock = clock
        self._sick = sick
        self._ended = False
        self._since = clock.time()
        """When it was asked last."""
        self._busy_until = self._since
        """With what nobody waited for any more when it was asked."""
        self._rest()

    def end(self) -> None:
        """Whatever comes now is no concern any more."""
        self._ended = True

    def _rest(self) -> None:
        self._due.at(max(self._since + self._health.interval, self._clock.time()), self._ask)

    def _ask(self) -> None:
        self._since = self._clock.time()
        asked = self._session.health_request()
        if asked is None:
            return  # nothing more to learn than its exit would tell
        ahead = {call: call.deadline for call in self._peer.in_flight_calls()}
        self._busy_until = self._peer.busy_until()
        probe = self._peer.ask_now(*asked, timeout=FOREVER)
        if probe is None:
            self._rest()
            return
        probe.add_done_callback(self._answered)

        def settled(call: asyncio.Future[Any]) -> None:
            """An answer, or its deadline. A call that was withdrawn still keeps the plugin busy."""
            if not call.cancelled() and isinstance(call, PendingCall):
                ahead[call] = min(ahead[call], self._clock.time())
                if not (self._ended or probe.done()):
                    self._wait(probe, ahead)

        for call in ahead:
            call.add_done_callback(settled)
        self._wait(probe, ahead)

    def _wait(self, probe: PendingCall, ahead: dict[PendingCall, float]) -> None:
        begins = max([self._busy_until, *ahead.values()])
        if begins < FOREVER:
            within = self._health.within
            told = f"it did not answer {probe.method!r} within {within:g} s"
            self._due.at(begins + within, lambda: self._sick(Timeout(told)))

    def _answered(self, probe: asyncio.Future[Any]) -> None:
        if probe.cancelled() or probe.exception() is not None or self._ended:
            return  # its process has ended, which others deal with
        self._session.on_health_response(probe.result())
        self._rest()
