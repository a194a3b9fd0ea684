"""What the plugin of a caller was granted; nothing, when its host is gone."""

from __future__ import annotations

from plughost.engine.caller import Caller
from plughost.permissions.operator_only import OperatorAccess


def capability_names(caller: Caller) -> set[str]:
    """The names of the capabilities that the plugin has."""
    plugin = caller.plugin
    return {capability.name for capability in plugin.capabilities} if plugin is not None else set()


def operator_access(caller: Caller) -> OperatorAccess:
    """What the operator granted to the plugin by name."""
    plugin = caller.plugin
    return plugin.operator_access if plugin is not None else OperatorAccess()


def network_hosts(caller: Caller) -> tuple[str, ...] | None:
    """The hosts that the plugin is limited to; None is every public host."""
    plugin = caller.plugin
    held = [each for each in plugin.capabilities if each.name == "network"] if plugin is not None else []
    if any(capability.scope is None for capability in held):
        return None
    return tuple(host for capability in held for host in capability.scope or ())
