"""The table of an instance's life, walked at random against a simple model of what it promises."""

from __future__ import annotations

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from plughost.engine.policy import LifecyclePolicy
from plughost.engine.supervisor import (
    IGNORED,
    TABLE,
    State,
    Supervisor,
    SupervisorAction,
    SupervisorEvent,
    diagram,
)
from tests.support import ROOT

HAS_PROCESS = {State.SPAWNING, State.RUNNING, State.DRAINING, State.SHUTTING_DOWN}


class LifeMachine(RuleBasedStateMachine):
    """Plays the world around a supervisor: calls come, processes fail, time passes."""

    @initialize(
        respawn=st.booleans(),
        forget=st.booleans(),
        one_shot=st.booleans(),
        limit=st.integers(1, 4),
        backoff=st.lists(st.floats(0.1, 20), min_size=1, max_size=4),
    )
    def born(self, respawn: bool, forget: bool, one_shot: bool, limit: int, backoff: list[float]) -> None:
        self.policy = LifecyclePolicy(
            respawn=respawn,
            forget_launch_failures=forget,
            one_shot=one_shot,
            failure_limit=limit,
            backoff=tuple(backoff),
        )
        self.supervisor = Supervisor(self.policy)
        self.now = 0.0
        self.running = False
        self.failures: list[float] = []
        self.waits = False

    def take(self, event: SupervisorEvent) -> None:
        action = self.supervisor.on(event)
        if action is SupervisorAction.START:
            assert not self.running, "two processes for one instance"
            self.running = True
        if action in (SupervisorAction.CLOSE, SupervisorAction.KILL):
            assert self.running
        self.waits = action is SupervisorAction.DELAY or (self.waits and action is SupervisorAction.NONE)

    @rule(
        event=st.sampled_from(
            [
                SupervisorEvent.WANTED,
                SupervisorEvent.IDLE,
                SupervisorEvent.DRAIN,
                SupervisorEvent.FINISHED,
                SupervisorEvent.STOP,
            ]
        )
    )
    def asked(self, event: SupervisorEvent) -> None:
        pair = (self.supervisor.state, event)
        if pair in TABLE or pair in IGNORED:
            self.take(event)

    @precondition(lambda self: self.running and self.supervisor.state is State.SPAWNING)
    @rule()
    def ready(self) -> None:
        self.take(SupervisorEvent.READY)
        assert self.supervisor.state is State.RUNNING

    @precondition(lambda self: self.waits)
    @rule()
    def delay_over(self) -> None:
        self.now += self.supervisor.delay
        self.take(SupervisorEvent.DELAY_OVER)

    @rule(seconds=st.floats(0, 100))
    def time_passes(self, seconds: float) -> None:
        self.now += seconds

    @precondition(lambda self: self.running)
    @rule(executed=st.booleans())
    def process_ends(self, executed: bool) -> None:
        before = self.supervisor.state
        event = self.supervisor.classify_exit(self.now, executed=executed)
        self.running = False
        self.take(event)
        after = self.supervisor.state
        if before in (State.SHUTTING_DOWN, State.DRAINING) or self.policy.one_shot:
            assert after is State.STOPPED
            return
        if not executed and before is State.SPAWNING and self.policy.forget_launch_failures:
            assert after is State.IDLE
            return
        self.failures = [at for at in self.failures if at > self.now - self.policy.failure_window] + [
            self.now
        ]
        if self.policy.respawn and len(self.failures) < self.policy.failure_limit:
            assert after is State.BACKOFF
            expected = self.policy.backoff[min(len(self.failures), len(self.policy.backoff)) - 1]
            assert self.supervisor.delay == expected
        else:
            assert after is State.QUARANTINED

    @invariant()
    def a_process_exists_exactly_in_the_states_that_have_one(self) -> None:
        if hasattr(self, "supervisor"):
            assert self.running == (self.supervisor.state in HAS_PROCESS)


TestLife = LifeMachine.TestCase


def test_a_good_start_does_not_wipe_out_failures_but_the_window_does():
    supervisor = Supervisor(LifecyclePolicy(respawn=True, backoff=(1, 4, 16), failure_limit=3))
    supervisor.on(SupervisorEvent.WANTED)
    for at, delay in ((0, 1), (10, 4)):
        supervisor.on(SupervisorEvent.READY)
        supervisor.on(supervisor.classify_exit(at, executed=True))
        assert supervisor.delay == delay
        supervisor.on(SupervisorEvent.DELAY_OVER)
    supervisor.on(SupervisorEvent.READY)
    supervisor.on(supervisor.classify_exit(71, executed=True))
    assert (supervisor.state, supervisor.failures, supervisor.delay) == (State.BACKOFF, 1, 1)


@pytest.mark.parametrize("event", SupervisorEvent)
@pytest.mark.parametrize("state", State)
def test_an_event_takes_its_step_or_is_ignored_or_is_a_bug(state, event):
    supervisor = Supervisor(LifecyclePolicy())
    supervisor.state = state
    if (state, event) in TABLE:
        assert (state, event) not in IGNORED
        assert (supervisor.on(event), supervisor.state) == TABLE[state, event][::-1]
    elif (state, event) in IGNORED:
        assert (supervisor.on(event), supervisor.state) == (SupervisorAction.NONE, state)
    else:
        with pytest.warns(RuntimeWarning, match="occurred in"):
            assert supervisor.on(event) is SupervisorAction.NONE
        assert supervisor.state is state


def test_a_call_a_drain_and_a_stop_may_come_in_every_state():
    asked = (SupervisorEvent.WANTED, SupervisorEvent.DRAIN, SupervisorEvent.STOP)
    assert {(state, event) for state in State for event in asked} <= IGNORED | TABLE.keys()


def test_an_exit_may_come_in_every_state_that_has_a_process():
    for state in HAS_PROCESS:
        for policy in (LifecyclePolicy(), LifecyclePolicy(respawn=True), LifecyclePolicy(one_shot=True)):
            supervisor = Supervisor(policy)
            supervisor.state = state
            supervisor.on(supervisor.classify_exit(0.0, executed=True))
            assert supervisor.state not in HAS_PROCESS


def test_every_state_can_be_left_but_the_last():
    assert {state for state, _ in TABLE} == set(State) - {State.STOPPED}


def test_from_everywhere_a_stop_leads_to_the_end():
    for state in set(State) - {State.STOPPED, State.SHUTTING_DOWN}:
        assert TABLE[state, SupervisorEvent.STOP].state in (State.SHUTTING_DOWN, State.STOPPED)


def test_the_diagram_in_the_docs_is_drawn_from_the_table():
    assert diagram() in (ROOT / "docs/lifecycle.md").read_text()
