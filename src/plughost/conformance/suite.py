"""A contract's axes, found by its name, and how they are run."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence

import msgspec

from plughost.base.errors import InvalidSpec, PluginError
from plughost.conformance.axis import Axis, Failed, Spared, Verdict
from plughost.conformance.subject import Sample, Subject
from plughost.contracts.contract import PluginSpec

GROUP = "plughost.conformance"
"""Entry points: a contract's name → its tuple of axes. A contract of your own brings its own."""


class Report(msgspec.Struct, frozen=True):
    plugin: str
    contract: str
    verdicts: tuple[Verdict, ...]

    def count(self, outcome: str) -> int:
        return sum(verdict.outcome == outcome for verdict in self.verdicts)

    @property
    def conforms(self) -> bool:
        return not self.count("failed")


def axes_of(contract: str) -> Sequence[Axis]:
    from importlib.metadata import entry_points

    for entry in entry_points(group=GROUP, name=contract):
        axes: Sequence[Axis] = entry.load()
        return axes
    raise InvalidSpec(f"there are no conformance axes for the contract {contract!r}")


async def examine(
    spec: PluginSpec,
    *,
    only: Collection[str] = (),
    sample: Sample | None = None,
    told: Callable[[Verdict], None] = lambda verdict: None,
) -> Report:
    """Put a plugin through its contract's axes, or through those named. `told` hears each verdict at once."""
    axes = axes_of(spec.contract)
    unknown = set(only) - {axis.name for axis in axes}
    if unknown:
        known = ", ".join(axis.name for axis in axes)
        raise InvalidSpec(f"no such axis: {', '.join(sorted(unknown))}; known: {known}")
    subject = Subject(spec, sample)
    verdicts = []
    for axis in axes:
        if not only or axis.name in only:
            verdicts.append(await _verdict(axis, subject))
            told(verdicts[-1])
    return Report(spec.name, spec.contract, tuple(verdicts))


async def _verdict(axis: Axis, subject: Subject) -> Verdict:
    if (reason := axis.spares(subject)) is not None:
        return Verdict(axis=axis.name, outcome="skipped", reason=reason)
    subject.frames.clear()
    began = time.monotonic()
    try:
        await axis.test(subject)
    except Spared as spared:
        return Verdict(axis=axis.name, outcome="skipped", reason=str(spared))
    except (Failed, PluginError) as failure:
        reason = failure.explain() if isinstance(failure, PluginError) else str(failure)
        frames = tuple(subject.frames)
        took = time.monotonic() - began
        return Verdict(axis=axis.name, outcome="failed", reason=reason, frames=frames, seconds=took)
    return Verdict(axis=axis.name, outcome="passed", seconds=time.monotonic() - began)
