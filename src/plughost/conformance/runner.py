"""The conformance runner: finds a contract's axes by entry point, runs them and collects the verdicts."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Sequence

import msgspec

from plughost._util.entry_points import EntryPoints
from plughost._util.nearest import did_you_mean
from plughost._util.text import escape_controls
from plughost.conformance.axis import Axis, AxisVerdict, Failed, Skipped, Warned
from plughost.conformance.plugin_under_test import PluginUnderTest, Sample
from plughost.conformance.raw_process import DEFAULT_TIMEOUT
from plughost.contracts.resolve import sandbox_class
from plughost.errors import InvalidSpec, LaunchFailed, PluginError
from plughost.spec import PluginSpec

AXES: EntryPoints[Sequence[Axis]] = EntryPoints("plughost.conformance", "set of axes")
"""The axes of each contract. External contracts register their own."""

LONGEST_AXIS = 12
"""The time limit of an axis, in multiples of `timeout`."""
LONGEST_REASON = 2000


class ConformanceReport(msgspec.Struct, frozen=True):
    """The verdicts of all axes for one plugin or host."""

    plugin: str
    contract: str
    verdicts: tuple[AxisVerdict, ...]
    sandbox: str = ""
    """The sandbox class in which its processes ran."""

    def count(self, outcome: str) -> int:
        return sum(verdict.outcome == outcome for verdict in self.verdicts)

    @property
    def conforms(self) -> bool:
        """Whether no axis failed."""
        return not self.count("failed")


def axes_of(contract: str) -> Sequence[Axis]:
    """The axes of a contract. Raises InvalidSpec when it has none."""
    if contract not in AXES.names():
        known = ", ".join(AXES.names())
        raise InvalidSpec(f"no conformance axes for the contract {contract!r}; there are for: {known}")
    return AXES.get(contract)


async def run_axes(
    spec: PluginSpec,
    *,
    only: Collection[str] = (),
    sample: Sample | None = None,
    timeout: float = DEFAULT_TIMEOUT,
    lenient: bool = False,
    on_verdict: Callable[[AxisVerdict], None] = lambda verdict: None,
) -> ConformanceReport:
    """Runs a plugin through its contract's axes, or through the named ones. `on_verdict` is called with each
    verdict at once.

    Raises LaunchFailed when the plugin cannot be started, or not in its sandbox: that says nothing about its
    conformance.
    """
    axes = axes_of(spec.contract)
    unknown = set(only) - {axis.name for axis in axes}
    if unknown:
        first = sorted(unknown)[0]
        raise InvalidSpec(f"unknown axis {first!r}{did_you_mean(first, [axis.name for axis in axes])}")
    subject = PluginUnderTest(spec, sample, timeout, lenient=lenient)
    verdicts = []
    for axis in axes:
        if not only or axis.name in only:
            verdicts.append(await _verdict(axis, subject))
            on_verdict(verdicts[-1])
    return ConformanceReport(spec.name, spec.contract, tuple(verdicts), sandbox_class(spec, subject.contract))


async def _verdict(axis: Axis, subject: PluginUnderTest) -> AxisVerdict:
    if (reason := axis.skip_reason(subject)) is not None:
        return AxisVerdict(axis=axis.name, outcome="skipped", reason=reason)
    subject.frames.clear()
    began = time.monotonic()
    try:
        reason = await _objection(axis, subject)
    except Warned as warning:
        took = time.monotonic() - began
        return AxisVerdict(axis=axis.name, outcome="warned", reason=_shown(str(warning)), seconds=took)
    except Skipped as spared:
        return AxisVerdict(axis=axis.name, outcome="skipped", reason=_shown(str(spared)))
    took = time.monotonic() - began
    if reason is None:
        return AxisVerdict(axis=axis.name, outcome="passed", seconds=took)
    frames = tuple(subject.frames)
    return AxisVerdict(axis=axis.name, outcome="failed", reason=_shown(reason), frames=frames, seconds=took)


async def _objection(axis: Axis, subject: PluginUnderTest) -> str | None:
    """Runs the axis; returns the reason of a failure, or None."""
    limit = LONGEST_AXIS * subject.timeout
    try:
        async with asyncio.timeout(limit):
            await axis.test(subject)
    except LaunchFailed:
        raise
    except PluginError as failure:
        return failure.explain()
    except Failed as failure:
        return str(failure)
    except TimeoutError:
        return f"this check did not finish within {limit:g} s"
    return None


def _shown(reason: str) -> str:
    """Escapes control characters, since a reason may quote the plugin, and truncates it."""
    text = "\n".join(map(escape_controls, reason.splitlines()))
    return text if len(text) <= LONGEST_REASON else f"{text[:LONGEST_REASON]}…"
