"""What a plugin has said on stderr, for whoever wonders why there is nothing to see."""

from __future__ import annotations

from plughost.host import Host


def last_words(host: Host, plugin: str) -> list[str]:
    """Its lines, oldest first, as far as they are kept."""
    return [line.message for line in host.service("logs").recent(plugin) if line.source == "stderr"]
