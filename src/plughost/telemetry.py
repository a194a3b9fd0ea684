"""OpenTelemetry for a host: a span and a duration for each call, and counters of each plugin.

Only the API of OpenTelemetry is used. Without an SDK in the program it does nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from plughost._version import __version__
from plughost.errors import PluginError
from plughost.host import Host

if TYPE_CHECKING:  # import time that a program may not need to spend
    from opentelemetry.metrics import CallbackOptions, MeterProvider, Observation
    from opentelemetry.trace import TracerProvider

SCOPE = "plughost"
"""The name of the instrumentation scope."""


def instrument(
    host: Host,
    *,
    tracer_provider: TracerProvider | None = None,
    meter_provider: MeterProvider | None = None,
) -> Callable[[], None]:
    """Report the calls and plugins of a host to OpenTelemetry, by the program's own providers or these.
    Returns a function that ends it.

    A span has the name `PLUGIN/METHOD`, is a child of the caller's current span, and lasts as long as the
    call. Params and results are not recorded.
    """
    from opentelemetry import metrics, trace
    from opentelemetry.trace import SpanKind, Status, StatusCode

    tracer = trace.get_tracer(SCOPE, __version__, tracer_provider)
    meter = metrics.get_meter(SCOPE, __version__, meter_provider)
    observed = [host]  # until it is told to end: instruments cannot be removed
    duration = meter.create_histogram(
        "plughost.call.duration", "s", "Duration of calls, including failed ones"
    )

    def on_call_ended(
        plugin: str, contract: str, method: str, seconds: float, error: PluginError | None
    ) -> None:
        end = time.time_ns()
        attributes = {"rpc.system": contract, "rpc.service": plugin, "rpc.method": method}
        span = tracer.start_span(
            f"{plugin}/{method}",
            kind=SpanKind.CLIENT,
            attributes=attributes,
            start_time=end - int(seconds * 1e9),
        )
        if error is not None:
            span.set_attribute("error.type", error.code)
            span.set_status(Status(StatusCode.ERROR, error.message))
        span.end(end)
        outcome = {} if error is None else {"error.type": error.code}
        duration.record(seconds, {**attributes, **outcome})

    def restarts(options: CallbackOptions) -> list[Observation]:
        return [
            metrics.Observation(plugin.metrics.restarts, {"rpc.service": name})
            for each in observed
            for name, plugin in each.plugins.items()
        ]

    def states(options: CallbackOptions) -> list[Observation]:
        return [
            metrics.Observation(1, {"rpc.service": name, "state": plugin.state})
            for each in observed
            for name, plugin in each.plugins.items()
        ]

    meter.create_observable_counter(
        "plughost.plugin.restarts", [restarts], description="Processes restarted after a failure"
    )
    meter.create_observable_gauge(
        "plughost.plugin.state", [states], description="1 for the current state of a plugin"
    )
    observers = host.context.call_observers
    observers.append(on_call_ended)

    def stop() -> None:
        observed.clear()
        if on_call_ended in observers:
            observers.remove(on_call_ended)

    return stop
