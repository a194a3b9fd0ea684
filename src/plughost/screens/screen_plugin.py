"""ScreenPlugin: a plugin as its screens see it, wherever it runs."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Protocol

from plughost.clock import Clock
from plughost.contracts.ainb.contract import Ainb


class ScreenPlugin(Protocol):
    """A plugin with screens: of a host in this process (`LocalScreenPlugin`), or of a running host
    (`RemoteScreenPlugin`)."""

    name: str
    view: Ainb
    """The client that asks for frames and sends keys; a restart may replace it."""

    @property
    def clock(self) -> Clock: ...

    @property
    def state(self) -> str:
        """Its lifecycle state."""

    @property
    def failure(self) -> str:
        """Why it does not run, if it has failed; otherwise empty."""

    async def follow(self, on_change: Callable[[], object]) -> None:
        """Call `on_change` whenever the state may have changed. Raises when the host is lost."""

    def shown(self) -> AbstractContextManager[None]:
        """A context in which its screen is shown: it is not stopped for being idle."""

    async def start(self) -> None:
        """Start an idle plugin and wait until it is ready."""

    async def restart(self) -> None:
        """End the plugin and start it with a clean failure history."""

    def kill_if_own(self) -> None:
        """Kill the plugin, unless it belongs to a host that others use."""

    async def stderr_tail(self) -> list[str]:
        """Its stderr lines that are kept, oldest first."""
