"""What an operator said of confinement and will not get: told, so that nobody relies on it."""

from __future__ import annotations

from collections.abc import Iterator

from plughost.permissions.access import NONE, ResourceLimits
from plughost.spec import PluginSpec

HOW = '`sandbox = "strict"` in plughost.toml (or --sandbox strict)'


def lints(spec: PluginSpec, confined: str) -> Iterator[str]:
    if confined != "none":
        return
    if spec.sandbox == "none":
        yield f"it is chosen to run unconfined: it may do whatever its user may; {HOW} confines it"
    if spec.allow != NONE:
        yield f"`allow` is not enforced without a sandbox: it may reach everything; {HOW} holds it to that"
    if spec.limits != ResourceLimits():
        yield f"`limits` are not enforced without a sandbox; {HOW} holds it to them"
