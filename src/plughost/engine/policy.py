"""LifecyclePolicy: the lifecycle settings of a plugin (timeouts, limits, shutdown, restart, backoff,
health)."""

from __future__ import annotations

import msgspec

from plughost._util.seconds import check_seconds


class HealthPolicy(msgspec.Struct, frozen=True):
    """Settings of the health check: it asks every `interval` seconds, and the plugin must answer within
    `within` seconds."""

    interval: float
    within: float

    def __post_init__(self) -> None:
        check_seconds("interval", self.interval)
        check_seconds("within", self.within)


class ShutdownPolicy(msgspec.Struct, frozen=True):
    """The grace periods of one shutdown, in seconds."""

    before_term: float
    """From the shutdown request until SIGTERM, or until SIGKILL if `after_term` is 0."""
    after_term: float
    """From SIGTERM until SIGKILL; 0 sends no SIGTERM."""


class LifecyclePolicy(msgspec.Struct, frozen=True, kw_only=True):
    """The lifecycle settings of one plugin, made by its contract. Times are in seconds; None is no limit.

    A time that is NaN or negative is refused with InvalidSpec.
    """

    eager: bool = False
    """Start when the plugin is added, not with the first call."""
    one_shot: bool = False
    """One process per call: it answers, its stdin closes, it must end with exit code 0."""

    launch_timeout: float | None = None
    """Time limit from the spawn until the program is executed."""
    ready_timeout: float | None = None
    """Time limit for the handshake."""
    call_timeout: float | None = 30.0
    """Time limit for a call, if its caller gives none."""
    timeout_from_write: bool = False
    """Start `call_timeout` when the call is written (the first: at the spawn), not when it is made."""
    max_in_flight: int = 1024
    """Calls that are sent and not yet answered; further ones wait."""
    max_waiting: int = 65536
    """Calls that may wait to be sent; further ones fail with Overloaded."""
    max_reverse: int = 64
    """Requests of the plugin that are served at a time."""
    max_buffered: int = 64 << 20
    """Bytes of notifications that a plugin may leave unread; beyond that it is killed as failed."""
    max_notify_rate: int | None = None
    """Rate limit: notifications of the plugin per second, and in one burst; further ones are dropped."""

    max_events: int = 10_000
    """Events that the plugin may send for a call before its answer; a call with more fails."""
    max_event_bytes: int = 16 << 20
    """Bytes of all those events."""

    cancel_grace: float = 5.0
    """Time from the cancellation of a call until a process that has not answered it is killed."""
    grace: float = 5.0
    """Grace period: time from the shutdown request until the process is killed."""
    unresponsive_grace: float = 2.0
    """Upper limit of `grace` for a plugin that has not answered a call which was cancelled."""
    term_grace: float = 0.0
    """The part of `grace` between SIGTERM and SIGKILL; 0 sends no SIGTERM."""
    idle_reap: float | None = None
    """Stop the process after this time without a frame in either direction. A plugin with health checks is
    never idle."""
    health: HealthPolicy | None = None
    """Health checks; the session must have `health_request` and `on_health_response`."""

    respawn: bool = False
    """Restart the process after a crash."""
    forget_launch_failures: bool = False
    """Do not count a failure to execute the program: the next call tries again."""
    backoff: tuple[float, ...] = (1.0, 4.0, 16.0)
    """Delays before a restart, by the number of failures in the window; the last one repeats."""
    failure_limit: int = 3
    """Failures within `failure_window` that quarantine the plugin."""
    failure_window: float = 60.0

    def __post_init__(self) -> None:
        for name in _TIMES:
            if (seconds := getattr(self, name)) is not None:
                check_seconds(name, seconds)
        for seconds in self.backoff:
            check_seconds("backoff", seconds)

    def capped(self, most: float | None) -> LifecyclePolicy:
        """The same policy with grace periods of at most `most` seconds. Where `grace` is cut, half of it is
        left before SIGTERM. With one process per call nothing changes: the call's timeout covers its end."""
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
        """The grace periods of a shutdown; shorter for an `unresponsive` plugin."""
        policy = self.capped(self.unresponsive_grace) if unresponsive else self
        return ShutdownPolicy(max(policy.grace - policy.term_grace, 0.0), policy.term_grace)


_TIMES = (
    "launch_timeout", "ready_timeout", "call_timeout", "cancel_grace", "grace", "unresponsive_grace",
    "term_grace", "idle_reap", "failure_window",
)  # fmt: skip
