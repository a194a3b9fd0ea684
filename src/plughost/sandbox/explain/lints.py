"""Lints of a plugin's sandbox settings: settings without effect, so that nobody relies on them."""

from __future__ import annotations

from collections.abc import Iterator

from plughost.permissions.access import NONE, ResourceLimits
from plughost.spec import PluginSpec

HOW = '`sandbox = "strict"` in plughost.toml (or --sandbox strict)'


def lints(spec: PluginSpec, confined: str) -> Iterator[str]:
    """Warnings for a plugin of class none whose settings would need a sandbox."""
    if confined != "none":
        return
    if spec.sandbox == "none":
        yield f"sandbox none is set: it runs with all rights of its user; {HOW} confines it"
    if spec.allow != NONE:
        yield f"`allow` is not enforced without a sandbox: it can access everything; {HOW} enforces it"
    if spec.limits != ResourceLimits():
        yield f"`limits` are not enforced without a sandbox; {HOW} enforces them"
