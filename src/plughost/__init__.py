"""One host for every out-of-process plugin.

async with plughost.Host() as host:
    echo = await host.add("plugins/echo-mcptest")
    print(await echo.call("echo", {"text": "hi"}, timeout=2))
"""

from importlib import import_module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from plughost.contracts.base import PluginSpec
    from plughost.errors import (
        BudgetExceeded,
        CallFailed,
        CollateralFailure,
        Crashed,
        Denied,
        HandshakeFailed,
        HostFailed,
        InvalidConfig,
        InvalidSpec,
        LaunchFailed,
        Malformed,
        Overloaded,
        PluginError,
        Quarantined,
        Stopped,
        Timeout,
        UnknownMethod,
    )
    from plughost.host import Host, Plugin

__all__ = [
    "BudgetExceeded",
    "CallFailed",
    "CollateralFailure",
    "Crashed",
    "Denied",
    "HandshakeFailed",
    "Host",
    "HostFailed",
    "InvalidConfig",
    "InvalidSpec",
    "LaunchFailed",
    "Malformed",
    "Overloaded",
    "Plugin",
    "PluginError",
    "PluginSpec",
    "Quarantined",
    "Stopped",
    "Timeout",
    "UnknownMethod",
]

_HOMES = {"Host": "host", "Plugin": "plugin", "PluginSpec": "contracts.base"}
"""Where what is no error is."""


def __getattr__(name: str) -> object:
    """Imported when it is first used: who only imports us waits for no event loop, and for no JSON."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_HOMES.get(name, 'errors')}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
