"""How long a plugin has to end: decided by its policy, as values."""

from __future__ import annotations

import pytest

from plughost.engine.policy import LifecyclePolicy, ShutdownPolicy


@pytest.mark.parametrize(
    ("policy", "unresponsive", "times"),
    [
        (LifecyclePolicy(grace=30.0), False, (30.0, 0.0)),
        (LifecyclePolicy(grace=30.0), True, (2.0, 0.0)),
        (LifecyclePolicy(grace=0.5), True, (0.5, 0.0)),
        (LifecyclePolicy(grace=7.0, term_grace=2.0), False, (5.0, 2.0)),
        (LifecyclePolicy(grace=7.0, term_grace=2.0), True, (1.0, 1.0)),
        (LifecyclePolicy(grace=2.5, term_grace=2.0), False, (0.5, 2.0)),
        (LifecyclePolicy(grace=1.0, term_grace=2.0), False, (0.0, 2.0)),
        (LifecyclePolicy(grace=0.5, one_shot=True), True, (0.5, 0.0)),
        (LifecyclePolicy(grace=30.0).capped(1.0), False, (1.0, 0.0)),
        (LifecyclePolicy(grace=30.0).capped(10.0), True, (2.0, 0.0)),
        (LifecyclePolicy(grace=7.0, term_grace=2.0).capped(2.0), False, (1.0, 1.0)),
        (LifecyclePolicy(grace=7.0, term_grace=2.0).capped(8.0), False, (5.0, 2.0)),
        (LifecyclePolicy(grace=30.0).capped(None), False, (30.0, 0.0)),
    ],
)
def test_a_grace_is_never_longer_than_the_contract_the_host_and_the_plugins_silence_allow(
    policy, unresponsive, times
):
    assert policy.shutdown(unresponsive=unresponsive) == ShutdownPolicy(*times)


def test_a_cap_covers_cancelled_calls_but_not_the_end_of_one_process_per_call():
    assert LifecyclePolicy(cancel_grace=5.0).capped(1.0).cancel_grace == 1.0
    tool = LifecyclePolicy(grace=0.5, one_shot=True)
    assert tool.capped(0.1) is tool
