"""`python -m benchmarks.fresh.neighbour alone|huge|flood SECONDS`: a quiet plugin beside a noisy one.

The quiet plugin shares one CPU with the host and the noisy one has the others, so that what is seen
is the host's doing and not the scheduler's.
"""

from __future__ import annotations

import asyncio
import json
import sys
from time import perf_counter

import msgspec

from benchmarks.contract import headered_plugin
from benchmarks.paths import C_ECHO, DISTURBER
from benchmarks.payload import params
from benchmarks.pinning import pinned_to, two_sides
from benchmarks.stats import quantile
from plughost import Host, Plugin, PluginSpec

AMOUNTS = {"huge": 16 << 20, "flood": 100_000}
Span = tuple[float, float]


async def disturb(noisy: Plugin, scenario: str, end: float) -> list[Span]:
    """Make the noise of the scenario until `end`; when it was to be heard."""
    spans: list[Span] = []
    await asyncio.sleep(0.2)
    while scenario != "alone" and perf_counter() < end:
        began = perf_counter()
        await noisy.call(scenario, AMOUNTS[scenario], timeout=30, type=msgspec.Raw)
        spans.append((began, perf_counter()))
        if scenario == "flood":
            break  # one flood
        await asyncio.sleep(began + 1.0 - perf_counter())
    return spans


async def call_until(quiet: Plugin, end: float) -> list[Span]:
    """When each call to the quiet plugin began and ended."""
    small = params(100)
    spans: list[Span] = []
    while (began := perf_counter()) < end:
        await quiet.call("echo", small, timeout=30)
        spans.append((began, perf_counter()))
    return spans


def overlap(one: Span, other: Span) -> bool:
    return one[0] < other[1] and other[0] < one[1]


async def main(scenario: str, seconds: float) -> None:
    ours, the_others = two_sides()
    async with Host() as host:
        heard = host.events(limit=1000)  # somebody listens: nothing is dropped before it is delivered
        noisy = headered_plugin(host, "noisy", DISTURBER)
        with pinned_to(the_others):
            await noisy.start()
        with pinned_to(ours):
            quiet = await host.add(PluginSpec(contract="mcptest", name="quiet", command=(*C_ECHO, "lines")))
            await quiet.start()
            await call_until(quiet, perf_counter() + 0.2)
            end = perf_counter() + seconds
            calls, noises = await asyncio.gather(call_until(quiet, end), disturb(noisy, scenario, end))
        await noisy.stop()
        heard.close()
    times = [stop - start for start, stop in calls]
    noisy_times = [call[1] - call[0] for call in calls if any(overlap(call, noise) for noise in noises)]
    print(
        json.dumps(
            {
                "p50": quantile(times, 0.5) * 1e6,
                "p99": quantile(times, 0.99) * 1e6,
                "worst": max(times) * 1e3,
                "during": quantile(noisy_times or times, 0.99) * 1e6,
            }
        )
    )


asyncio.run(main(sys.argv[1], float(sys.argv[2])))
