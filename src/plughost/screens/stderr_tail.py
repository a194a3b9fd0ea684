"""The recent stderr lines of a plugin, to explain why there is no frame."""

from __future__ import annotations

from plughost.host import Host


def recent_stderr(host: Host, plugin: str) -> list[str]:
    """The plugin's stderr lines that are kept, oldest first."""
    return [line.message for line in host.service("logs").recent(plugin) if line.source == "stderr"]
