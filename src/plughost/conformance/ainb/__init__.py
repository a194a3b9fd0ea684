"""The conformance axes of ainb plugins, in the order of the contract."""

from __future__ import annotations

from plughost.conformance.ainb import bus, capabilities, lifecycle, protocol, screen, services

ORDER = (
    "manifest", "framing", "dispatch", "capabilities", "render", "pubsub", "action", "log", "files",
    "shutdown", "recovery", "quarantine", "cli", "chunks",
)  # fmt: skip

_known = {
    axis.name: axis
    for group in (protocol, capabilities, screen, bus, services, lifecycle)
    for axis in group.AXES
}
AXES = tuple(_known[name] for name in ORDER)
