"""How a plugin lives, as a value: one per contract and plugin."""

from __future__ import annotations

import msgspec


class HealthPolicy(msgspec.Struct, frozen=True):
    """How often a running plugin is asked whether it is well; it must answer within `within` seconds."""

    interval: float
    within: float


class ShutdownPolicy(msgspec.Struct, frozen=True):
    """The times of one shutdown, in seconds."""

    before_term: float
    """From the request to end until SIGTERM, or until SIGKILL where there is no time after it."""
    after_term: float
    """From SIGTERM until SIGKILL; 0 sends no SIGTERM."""


class LifecyclePolicy(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds everywhere; None is no limit."""

    eager: bool = False
    """Start with the host, not on the first call."""
    one_shot: bool = False
    """One process per call: it answers, its stdin closes, it must end with exit code 0."""

    launch_timeout: float | None = None
    """From the spawn until the program is executed."""
    ready_timeout: float | None = None
    """For the handshake."""
    call_timeout: float | None = 30.0
    """For a call whose caller named none."""
    timeout_from_write: bool = False
    """That time starts when the call is written (the first: at the spawn), not when it is made."""
    max_in_flight: int = 1024
    max_waiting: int = 65536
    """Calls that may wait for their turn; further ones are refused."""
    max_reverse: int = 64
    """Requests of the plugin served at a time; it is not read while there are as many."""
    max_buffered: int = 64 << 20
    """Bytes of notifications a plugin may leave unread; past that it is ended as failed."""
    max_told: int | None = None
    """Notifications of the plugin per second, and as many at once; further ones are dropped."""

    max_events: int = 10_000
    """What a call may say before its answer, in all; a call that says more fails."""
    max_event_bytes: int = 16 << 20

    cancel_grace: float = 5.0
    """From the request to stop a call until the process that has not answered it is ended by force."""
    grace: float = 5.0
    """From the request to end until it is ended by force."""
    unresponsive_grace: float = 2.0
    """The most of that for a plugin that owes an answer nobody waits for any more."""
    term_grace: float = 0.0
    """Of the grace, the time between a polite SIGTERM and the end by force."""
    idle_reap: float | None = None
    """End it after so long without a frame either way. One whose health is checked is never idle."""
    health: HealthPolicy | None = None
    """A session with one has `probe` and `probed`."""

    respawn: bool = False
    """Start again after a crash."""
    forget_launch_failures: bool = False
    """A program that could not be executed is tried anew by the next call."""
    backoff: tuple[float, ...] = (1.0, 4.0, 16.0)
    """Delays before a respawn, by the number of failures in the window."""
    failure_limit: int = 3
    failure_window: float = 60.0

    def capped(self, most: float | None) -> LifecyclePolicy:
        """The same policy with graces of at most `most` seconds. Where the grace is cut, half of it is left
        before SIGTERM. With one process per call nothing changes: the call's timeout covers its end."""
        if most is None or self.one_shot:
            return self
        cut = self.grace > most
        return msgspec.structs.replace(
            self,
            grace=min(self.grace, most),
            term_grace=min(self.term_grace, most / 2) if cut else self.term_grace,
            cancel_grace=min(self.cancel_grace, most),
        )

    def shutdown(self, *, unresponsive: bool) -> ShutdownPolicy:
        """The times of a shutdown."""
        policy = self.capped(self.unresponsive_grace) if unresponsive else self
        return ShutdownPolicy(max(policy.grace - policy.term_grace, 0.0), policy.term_grace)
