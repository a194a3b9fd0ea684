"""Calls and plugins of a host in OpenTelemetry, with its real SDK."""

from __future__ import annotations

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode

import plughost
from tests.support import puppet


@pytest.fixture
def observed(host):
    spans, reader = InMemorySpanExporter(), InMemoryMetricReader()
    tracers, meters = TracerProvider(), MeterProvider([reader])
    tracers.add_span_processor(SimpleSpanProcessor(spans))
    stop = plughost.instrument(host, tracer_provider=tracers, meter_provider=meters)
    yield spans, reader, tracers.get_tracer("test"), stop
    meters.shutdown()


def values(reader):
    """The points of all metrics, by name."""
    (resource,) = reader.get_metrics_data().resource_metrics
    return {
        metric.name: metric.data.data_points for scope in resource.scope_metrics for metric in scope.metrics
    }


async def test_a_call_is_a_span_below_the_callers(host, observed):
    spans, reader, tracer, _ = observed
    plugin = await host.add(puppet())
    with tracer.start_as_current_span("mine") as mine:
        await plugin.call("echo", {"secret": "hunter2"})
    call, outer = spans.get_finished_spans()
    assert (call.name, call.parent.span_id) == (f"{plugin.name}/echo", mine.get_span_context().span_id)
    assert call.attributes == {"rpc.system": "mcptest", "rpc.service": plugin.name, "rpc.method": "echo"}
    assert outer.start_time <= call.start_time <= call.end_time <= outer.end_time
    assert "hunter2" not in call.to_json()
    found = values(reader)
    (duration,) = found["plughost.call.duration"]
    assert (duration.count, duration.sum > 0) == (1, True)
    assert [point.attributes["state"] for point in found["plughost.plugin.state"]] == ["Running"]


async def test_a_failed_call_is_a_span_with_its_error(host, observed):
    spans, reader, _, _ = observed
    plugin = await host.add(puppet())
    with pytest.raises(plughost.Crashed):
        await plugin.call("exit", 3)
    with pytest.raises(plughost.CallFailed):
        await (await host.add(puppet(name="other"))).call("error", {"code": 1, "message": "no"})
    crashed, failed = spans.get_finished_spans()
    assert (crashed.status.status_code, crashed.attributes["error.type"]) == (StatusCode.ERROR, "crashed")
    assert failed.status.status_code is StatusCode.ERROR
    assert {point.attributes.get("error.type") for point in values(reader)["plughost.call.duration"]} >= {
        "crashed"
    }


async def test_it_ends_when_it_is_told_to(host, observed):
    spans, reader, _, stop = observed
    plugin = await host.add(puppet())
    stop()
    await plugin.call("echo", 1)
    assert spans.get_finished_spans() == ()
    assert reader.get_metrics_data() is None


async def test_an_observer_that_fails_harms_no_call(host):
    def broken(*call):
        raise ValueError("my own fault")

    told = []
    host._loop.set_exception_handler(lambda loop, context: told.append(str(context["exception"])))
    host.context.call_observers.append(broken)
    plugin = await host.add(puppet())
    assert await plugin.call("echo", 1) == 1
    assert told == ["my own fault"]


async def test_every_observer_is_told(host):
    first, second = [], []
    host.context.call_observers += [lambda *call: first.append(call), lambda *call: second.append(call)]
    await (await host.add(puppet())).call("echo", 1)
    assert len(first) == 1
    assert first == second
