"""The plugin under test: its spec, and new processes of it, raw or in a real host."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import msgspec

from plughost.conformance.axis import Failed
from plughost.conformance.raw_process import DEFAULT_TIMEOUT, RawProcess
from plughost.contracts.base import ResolvedSpec
from plughost.contracts.registry import get_contract
from plughost.host import Host, Plugin
from plughost.sandbox import unhosted
from plughost.spec import PluginSpec
from plughost.testing import VirtualClock

T = TypeVar("T")

KEPT = 12
"""The number of frames kept for the report."""


class Sample(msgspec.Struct, frozen=True):
    """A call that the plugin answers with a result, for contracts where no call is known to succeed."""

    method: str
    params: Any = msgspec.UNSET


class PluginUnderTest:
    """The plugin under test, as the axes get it: its resolved spec, the sample call and the timeout."""

    def __init__(
        self,
        spec: PluginSpec,
        sample: Sample | None = None,
        timeout: float = DEFAULT_TIMEOUT,
        *,
        lenient: bool = False,
    ) -> None:
        self.spec = spec
        self.lenient = lenient
        """Whether to warn only, where all existing plugins do less than their contract asks for."""
        self.sample = sample
        self.timeout = timeout
        self.contract = get_contract(spec.contract)
        self.resolved: ResolvedSpec = self.contract.resolve(spec)
        self.frames: deque[str] = deque(maxlen=KEPT)
        """The latest frames of the current axis."""

    @asynccontextmanager
    async def wire(
        self, env: Mapping[str, str] | None = None, spec: PluginSpec | None = None
    ) -> AsyncIterator[RawProcess]:
        """Starts a new raw process of the plugin, or of it with another `spec`, in the sandbox that a host
        would use."""
        resolved = self.resolved if spec is None else self.contract.resolve(spec)
        resolved = msgspec.structs.replace(resolved, env={**resolved.env, **(env or {})})
        spec = spec or self.spec
        framing = self.contract.session(spec, resolved).framing()
        async with (
            unhosted.confine_unhosted(spec, resolved) as start,
            RawProcess(start, framing, self.frames, self.timeout) as wire,
        ):
            yield wire

    @asynccontextmanager
    async def hosted(
        self, prepare: Callable[[Host], object] = lambda host: None, **options: Any
    ) -> AsyncIterator[tuple[Host, Plugin, VirtualClock]]:
        """Adds the plugin to a real host with a virtual clock. `options` are added to the spec's; `prepare`
        gets the host before the plugin is added."""
        clock = VirtualClock()
        spec = msgspec.structs.replace(self.spec, options={**self.spec.options, **options})
        async with Host(clock=clock) as host:
            prepare(host)
            try:
                yield host, await host.add(spec), clock
            finally:
                for plugin in host.plugins.values():
                    plugin.kill()  # the virtual clock stands still, so its grace would never end


async def within(timeout: float, work: Awaitable[T], what: str) -> T:
    """Waits at most `timeout` seconds of real time, since the host's own clock is virtual and stands
    still."""
    try:
        async with asyncio.timeout(timeout):
            return await work
    except TimeoutError:
        raise Failed(f"{what} did not come within {timeout:g} s") from None
