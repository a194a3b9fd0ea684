"""Supervisor: the lifecycle of an instance as a state machine, one table of states × events.

It is pure: it decides about restarts, backoff and quarantine, and `Instance` acts.
"""

from __future__ import annotations

import enum
import warnings
from typing import NamedTuple

from plughost.engine.policy import LifecyclePolicy


class State(enum.Enum):
    """The states of an instance."""

    IDLE = "Idle"
    SPAWNING = "Spawning"
    RUNNING = "Running"
    DRAINING = "Draining"
    BACKOFF = "Backoff"
    QUARANTINED = "Quarantined"
    SHUTTING_DOWN = "ShuttingDown"
    STOPPED = "Stopped"


class SupervisorEvent(enum.Enum):
    """The inputs of the state machine."""

    WANTED = "a call, or an eager start"
    READY = "handshake done"
    RETRY = "failed, may try again"
    GIVE_UP = "failed for good"
    FORGET = "could not be executed"
    DELAY_OVER = "delay over"
    IDLE = "idle for too long"
    DRAIN = "replaced by a new generation"
    FINISHED = "nothing left to do"
    STOP = "stop"
    GONE = "ended as expected, or its only call failed"


class SupervisorAction(enum.Enum):
    """The outputs of the state machine: what the instance has to do."""

    NONE = "-"
    START = "spawn"
    OPEN = "let calls through"
    DELAY = "wait, then respawn"
    REFUSE = "fail the calls that wait"
    CLOSE = "ask it to end, then end it by force"
    KILL = "end it by force"
    END = "done"


class Step(NamedTuple):
    """An entry of the table: the next state, and what to do."""

    state: State
    action: SupervisorAction


_S, _E, _A = State, SupervisorEvent, SupervisorAction

TABLE: dict[tuple[State, SupervisorEvent], Step] = {
    (_S.IDLE, _E.WANTED): Step(_S.SPAWNING, _A.START),
    (_S.IDLE, _E.DRAIN): Step(_S.STOPPED, _A.END),
    (_S.IDLE, _E.STOP): Step(_S.STOPPED, _A.END),
    (_S.SPAWNING, _E.READY): Step(_S.RUNNING, _A.OPEN),
    (_S.SPAWNING, _E.RETRY): Step(_S.BACKOFF, _A.DELAY),
    (_S.SPAWNING, _E.GIVE_UP): Step(_S.QUARANTINED, _A.REFUSE),
    (_S.SPAWNING, _E.FORGET): Step(_S.IDLE, _A.REFUSE),
    (_S.SPAWNING, _E.GONE): Step(_S.STOPPED, _A.END),
    (_S.SPAWNING, _E.DRAIN): Step(_S.SHUTTING_DOWN, _A.KILL),
    (_S.SPAWNING, _E.STOP): Step(_S.SHUTTING_DOWN, _A.KILL),
    (_S.RUNNING, _E.RETRY): Step(_S.BACKOFF, _A.DELAY),
    (_S.RUNNING, _E.GIVE_UP): Step(_S.QUARANTINED, _A.REFUSE),
    (_S.RUNNING, _E.GONE): Step(_S.STOPPED, _A.END),
    (_S.RUNNING, _E.IDLE): Step(_S.SHUTTING_DOWN, _A.CLOSE),
    (_S.RUNNING, _E.FINISHED): Step(_S.SHUTTING_DOWN, _A.CLOSE),
    (_S.RUNNING, _E.DRAIN): Step(_S.DRAINING, _A.NONE),
    (_S.RUNNING, _E.STOP): Step(_S.SHUTTING_DOWN, _A.CLOSE),
    (_S.DRAINING, _E.FINISHED): Step(_S.SHUTTING_DOWN, _A.CLOSE),
    (_S.DRAINING, _E.STOP): Step(_S.SHUTTING_DOWN, _A.CLOSE),
    (_S.DRAINING, _E.GONE): Step(_S.STOPPED, _A.END),
    (_S.BACKOFF, _E.DELAY_OVER): Step(_S.SPAWNING, _A.START),
    (_S.BACKOFF, _E.DRAIN): Step(_S.STOPPED, _A.END),
    (_S.BACKOFF, _E.STOP): Step(_S.STOPPED, _A.END),
    (_S.QUARANTINED, _E.DRAIN): Step(_S.STOPPED, _A.END),
    (_S.QUARANTINED, _E.STOP): Step(_S.STOPPED, _A.END),
    (_S.SHUTTING_DOWN, _E.GONE): Step(_S.STOPPED, _A.END),
}
"""The events that change something, by state."""

IGNORED: frozenset[tuple[State, SupervisorEvent]] = frozenset(
    (state, event)
    for event, states in {
        # A call waits, or is refused, by the state that the instance is in.
        _E.WANTED: set(State) - {_S.IDLE},
        # These may cross with a stop that is under way.
        _E.READY: {_S.SHUTTING_DOWN},
        _E.FINISHED: {_S.SPAWNING, _S.SHUTTING_DOWN},
        # The end has been asked for before.
        _E.DRAIN: {_S.DRAINING, _S.SHUTTING_DOWN, _S.STOPPED},
        _E.STOP: {_S.SHUTTING_DOWN, _S.STOPPED},
    }.items()
    for state in states
)
"""The events that may occur in a state and change nothing. Any other that `TABLE` lacks is a bug: it changes
nothing either, but is warned of."""


class Supervisor:
    """The state of one instance, and its failures within the failure window."""

    __slots__ = ("_failures", "_policy", "state")

    def __init__(self, policy: LifecyclePolicy) -> None:
        self._policy = policy
        self._failures: tuple[float, ...] = ()
        self.state = State.IDLE

    def on(self, event: SupervisorEvent) -> SupervisorAction:
        """Take a step in the table; SupervisorAction.NONE when the event changes nothing in this state."""
        step = TABLE.get((self.state, event))
        if step is None:
            if (self.state, event) not in IGNORED:  # a bug, but no reason to leave callers waiting
                warnings.warn(f"{event} occurred in {self.state}", RuntimeWarning, stacklevel=2)
            return SupervisorAction.NONE
        self.state = step.state
        return step.action

    def classify_exit(self, now: float, *, executed: bool, final: bool = False) -> SupervisorEvent:
        """The event for a process that has ended: retry, give up, forget or gone.

        `executed` tells whether the program ever ran, `final` that another start would fail in the same way.
        """
        if self._policy.one_shot or self.state in (State.SHUTTING_DOWN, State.DRAINING):
            return SupervisorEvent.GONE
        if not executed and self.state is State.SPAWNING and self._policy.forget_launch_failures:
            return SupervisorEvent.FORGET
        window = now - self._policy.failure_window
        self._failures = (*(at for at in self._failures if at > window), now)
        if final or not self._policy.respawn or len(self._failures) >= self._policy.failure_limit:
            return SupervisorEvent.GIVE_UP
        return SupervisorEvent.RETRY

    @property
    def failures(self) -> int:
        """Failures in the window before the last one, which counts, too. A good start does not reset them."""
        return len(self._failures)

    @property
    def delay(self) -> float:
        """Backoff: seconds to wait before the next start."""
        backoff = self._policy.backoff
        return backoff[min(self.failures, len(backoff)) - 1] if backoff else 0.0


def diagram() -> str:
    """The table as a Mermaid state diagram, for the docs."""
    lines = ["stateDiagram-v2", f"    [*] --> {State.IDLE.value}"]
    for (state, event), step in TABLE.items():
        what = (
            "" if step.action in (SupervisorAction.NONE, SupervisorAction.END) else f" / {step.action.value}"
        )
        lines.append(f"    {state.value} --> {step.state.value}: {event.value}{what}")
    lines.append(f"    {State.STOPPED.value} --> [*]")
    return "\n".join(lines)
