"""The axes of ainb plugins, in the order of the contract."""

from __future__ import annotations

from plughost.conformance.ainb import bus, life, powers, screen, services, talk

ORDER = (
    "manifest", "framing", "dispatch", "capabilities", "render", "pubsub", "action", "log", "files",
    "shutdown", "recovery", "quarantine", "cli", "chunks",
)  # fmt: skip

_known = {axis.name: axis for group in (talk, powers, screen, bus, services, life) for axis in group.AXES}
AXES = tuple(_known[name] for name in ORDER)
