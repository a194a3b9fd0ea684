"""HostContext: what the plugins of one host share."""

from __future__ import annotations

from plughost.clock import Clock
from plughost.contracts.base import ResolvedSpec
from plughost.engine.io.tap import Tap
from plughost.engine.link import Link
from plughost.events import EventHub
from plughost.sandbox.manager import SandboxManager
from plughost.sandbox.plan import SandboxPlan
from plughost.services.registry import ServiceRegistry
from plughost.spec import PluginSpec


class HostContext:
    """The parts of a host that its plugins use."""

    __slots__ = (
        "clock", "events", "launch_mode", "launcher", "links", "max_grace", "sandboxes", "services", "tap",
    )  # fmt: skip

    def __init__(
        self,
        *,
        clock: Clock,
        events: EventHub,
        services: ServiceRegistry,
        sandboxes: SandboxManager,
        launcher: tuple[str, ...],
        launch_mode: str,
        max_grace: float | None,
        tap: Tap | None,
    ) -> None:
        self.clock = clock
        self.events = events
        self.services = services
        self.sandboxes = sandboxes
        self.launcher = launcher
        self.launch_mode = launch_mode
        self.max_grace = max_grace
        self.tap = tap
        self.links: set[Link] = set()
        """All open links, for a host that is dropped unclosed."""

    async def confine(self, spec: PluginSpec, resolved: ResolvedSpec) -> SandboxPlan | None:
        """Prepare the sandbox of a plugin's process; None for a plugin that is not a process."""
        if resolved.open_link is not None:
            return None
        return await self.sandboxes.confine(spec, resolved)
