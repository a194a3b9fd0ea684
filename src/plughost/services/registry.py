"""The registry of built-in services by name; an embedding program replaces any of them with
`Host.provide`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from plughost.clock import Clock
from plughost.events import EventHub
from plughost.services.plugin_lookup import PluginLookup


class HostContext(PluginLookup, Protocol):
    """The part of the host that built-in services use."""

    _events: EventHub
    _clock: Clock

    def _file_roots(self) -> Mapping[str, str]:
        """The folders of capabilities to read files, where the embedding program names none."""


def create_builtin(name: str, host: HostContext) -> Any:
    """Create the built-in service of that name; None when there is none."""
    if name == "logs":
        from plughost.services.logs import Logs

        return Logs(host._events, host._clock)
    if name == "snapshots":
        from plughost.services.snapshots import Snapshots

        return Snapshots()
    if name == "actions":
        from plughost.services.actions import Actions

        return Actions(host)
    if name == "fs":
        from plughost.services.files.service import FileService

        return FileService(host._file_roots(), opened=False)
    if name == "network":
        from plughost.services.network.service import NetworkService

        return NetworkService()
    if name == "storage":
        from plughost.services.storage.service import Storage, default_folder

        return Storage(default_folder())
    return None
