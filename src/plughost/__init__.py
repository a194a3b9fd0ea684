"""One host for every out-of-process plugin.

async with plughost.Host() as host:
    echo = await host.add("plugins/echo-mcptest")
    print(await echo.call("echo", {"text": "hi"}, timeout=2))
"""

from plughost.base.errors import (
    CallFailed,
    Collateral,
    Crashed,
    Denied,
    HandshakeFailed,
    HostFailed,
    InvalidConfig,
    InvalidSpec,
    LaunchFailed,
    Malformed,
    OverBudget,
    Overloaded,
    PluginError,
    Quarantined,
    Stopped,
    Timeout,
    UnknownMethod,
)
from plughost.contracts.contract import PluginSpec
from plughost.host import Host, Plugin

__all__ = [
    "CallFailed",
    "Collateral",
    "Crashed",
    "Denied",
    "HandshakeFailed",
    "Host",
    "HostFailed",
    "InvalidConfig",
    "InvalidSpec",
    "LaunchFailed",
    "Malformed",
    "OverBudget",
    "Overloaded",
    "Plugin",
    "PluginError",
    "PluginSpec",
    "Quarantined",
    "Stopped",
    "Timeout",
    "UnknownMethod",
]
