"""HostContext: what the plugins of one host share."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable

import msgspec

from plughost.catalogue import Catalogue
from plughost.clock import Clock
from plughost.contracts.base import ResolvedSpec
from plughost.engine.io.process_link import ProcessLink
from plughost.engine.io.tap import Tap
from plughost.engine.link import Link, OpenLink
from plughost.errors import PluginError
from plughost.events import EventHub
from plughost.handshake_store import HandshakeStore
from plughost.sandbox.manager import SandboxManager
from plughost.sandbox.plan import SandboxPlan
from plughost.services.registry import ServiceRegistry
from plughost.spec import PluginSpec
from plughost.wire.method_description import MethodDescription

SAVE_TIMEOUT = 2.0
"""Seconds to wait for the disk when the host ends."""

OnCallEnded = Callable[[str, str, str, float, PluginError | None], None]
"""Observes calls: gets the plugin, the contract, the method, the seconds and the error of each."""


class HostContext:
    """The parts of a host that its plugins use."""

    __slots__ = (
        "_saving", "call_observers", "catalogue", "clock", "events", "handshakes", "launch_mode",
        "launcher", "links", "max_grace", "sandboxes", "services", "tap",
    )  # fmt: skip

    def __init__(
        self,
        *,
        clock: Clock,
        events: EventHub,
        catalogue: Catalogue,
        handshakes: HandshakeStore | None,
        services: ServiceRegistry,
        sandboxes: SandboxManager,
        launcher: tuple[str, ...],
        launch_mode: str,
        max_grace: float | None,
        tap: Tap | None,
    ) -> None:
        self.clock = clock
        self.events = events
        self.catalogue = catalogue
        self.handshakes = handshakes
        self.services = services
        self.sandboxes = sandboxes
        self.launcher = launcher
        self.launch_mode = launch_mode
        self.max_grace = max_grace
        self.tap = tap
        self.call_observers: list[OnCallEnded] = []
        self._saving: set[asyncio.Future[None]] = set()
        self.links: set[Link] = set()
        """All open links, for a host that is dropped unclosed."""

    async def kept_handshake(self, spec: PluginSpec) -> tuple[MethodDescription, ...]:
        """What the last handshake of a plugin told can be called, in an earlier host."""
        return () if self.handshakes is None else await asyncio.to_thread(self.handshakes.load, spec)

    def keep_handshake(self, spec: PluginSpec, methods: tuple[MethodDescription, ...]) -> None:
        """Keep what a handshake told, in a thread: the disk may be slow."""
        if self.handshakes is not None:
            loop = asyncio.get_running_loop()
            saving = loop.run_in_executor(None, self.handshakes.save, spec, methods)
            self._saving.add(saving)
            saving.add_done_callback(self._saving.discard)

    async def close(self) -> None:
        """Wait until handshakes are kept, but not for a disk that hangs."""
        if self._saving:
            await asyncio.wait(self._saving, timeout=SAVE_TIMEOUT)

    async def confine(self, spec: PluginSpec, resolved: ResolvedSpec) -> SandboxPlan | None:
        """Prepare the sandbox of a plugin's process; None for a plugin that is not a process."""
        if resolved.open_link is not None:
            return None
        return await self.sandboxes.confine(spec, resolved)

    def link_opener(self, resolved: ResolvedSpec, confinement: SandboxPlan | None) -> OpenLink | None:
        """How a process is started with this sandbox; None if the sandbox could not be prepared. A plugin
        that is not a process has an opener of its own."""
        if confinement is None:
            return resolved.open_link
        launch = confinement.launch
        # Some sandboxes need a certain mode.
        mode = self.launch_mode if launch.mode == "auto" else launch.mode
        return functools.partial(
            ProcessLink, msgspec.structs.replace(launch, launcher=self.launcher, mode=mode)
        )
