"""What is measured of a plugin."""

from __future__ import annotations

import pytest

from plughost.errors import Crashed
from plughost.metrics import BATCH, BUCKETS, Latencies, PluginMetrics


def test_quantiles_are_at_most_six_percent_off():
    latencies = Latencies()
    for number in range(1, 10_001):
        latencies.recent.append(number * 1e-5)
    for part in (0.01, 0.5, 0.99, 1.0):
        assert latencies.quantile(part) == pytest.approx(part * 0.1, rel=0.0625)
    assert latencies.count == 10_000


def test_no_latency_is_too_short_or_too_long_to_be_counted():
    latencies = Latencies()
    for seconds in (0.0, 1e-12, -1.0, 1e300):
        latencies.recent.append(seconds)
    assert latencies.count == 4
    assert latencies.quantile(0.5) < 1e-5
    assert latencies.quantile(1.0) > 7000
    assert set(latencies._counts) == {0, BUCKETS - 1}


def test_there_is_no_quantile_before_the_first_call():
    assert Latencies().quantile(0.5) is None


def test_a_start_after_a_failure_is_a_restart_and_a_start_after_a_stop_is_not():
    metrics = PluginMetrics()
    metrics.on_started(1.0, one_shot=False)
    metrics.on_exited(None, 2.0, running=False)
    metrics.on_started(3.0, one_shot=False)
    assert (metrics.restarts, metrics.started_at) == (0, 3.0)
    metrics.on_exited(Crashed("it exited with code 3"), 4.0, running=False)
    assert metrics.started_at is None
    metrics.on_started(5.0, one_shot=False)
    assert metrics.restarts == 1
    assert metrics.snapshot(7.0)["uptime"] == 2.0
    assert metrics.snapshot(7.0)["last_error"] == {
        "code": "crashed",
        "message": "it exited with code 3",
        "age": 3.0,
    }


def test_latencies_of_calls_that_all_fail_are_counted_in_batches_too():
    metrics = PluginMetrics()
    for _ in range(3 * BATCH):
        metrics.latencies.recent.append(0.001)
        metrics.on_call_failed(Crashed("it exited with code 3"), 1.0)
    assert len(metrics.latencies.recent) < BATCH
    assert (metrics.calls, metrics.failures) == (3 * BATCH, 3 * BATCH)
