"""One host for every out-of-process plugin.

async with plughost.Host() as host:
    echo = await host.add("plugins/echo-mcptest")
    print(await echo.call("echo", {"text": "hi"}, timeout=2))

`plughost.sync` is the same for programs without an event loop, `plughost.testing` is for tests,
`plughost.contract` for authors of contracts, `plughost.vai` for packages and invocations.
"""

TYPE_CHECKING = False  # importing typing would take longer than all of this
if TYPE_CHECKING:
    from plughost._version import __version__
    from plughost.catalogue import CatalogueEntry
    from plughost.contracts.ainb.client import Ainb
    from plughost.contracts.kaged.client import Kaged
    from plughost.contracts.kaged.messages import KagedContext
    from plughost.contracts.mcptest.client import Mcptest
    from plughost.contracts.rune.client import Rune
    from plughost.contracts.vai.client import Vai
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
        SandboxUnavailable,
        Stopped,
        Timeout,
        UnknownMethod,
    )
    from plughost.events import (
        CatalogueChanged,
        Dropped,
        Event,
        Exited,
        Linted,
        Logged,
        Notified,
        Spawned,
        StateChanged,
        Subscription,
    )
    from plughost.host import Host
    from plughost.logging_bridge import LoggingBridge
    from plughost.permissions.access import Access, Endpoint, ResourceLimits
    from plughost.plugin import Plugin
    from plughost.spec import PluginSpec
    from plughost.telemetry import instrument
    from plughost.wire.method_description import MethodDescription
else:
    from plughost._util.lazy import lazy_exports

    __getattr__, __dir__ = lazy_exports(
        __name__,
        {
            "Access": "plughost.permissions.access",
            "Ainb": "plughost.contracts.ainb.client",
            "BudgetExceeded": "plughost.errors",
            "CallFailed": "plughost.errors",
            "CatalogueChanged": "plughost.events",
            "CatalogueEntry": "plughost.catalogue",
            "CollateralFailure": "plughost.errors",
            "Crashed": "plughost.errors",
            "Denied": "plughost.errors",
            "Dropped": "plughost.events",
            "Endpoint": "plughost.permissions.access",
            "Event": "plughost.events",
            "Exited": "plughost.events",
            "HandshakeFailed": "plughost.errors",
            "Host": "plughost.host",
            "HostFailed": "plughost.errors",
            "InvalidConfig": "plughost.errors",
            "InvalidSpec": "plughost.errors",
            "Kaged": "plughost.contracts.kaged.client",
            "KagedContext": "plughost.contracts.kaged.messages",
            "LaunchFailed": "plughost.errors",
            "Linted": "plughost.events",
            "Logged": "plughost.events",
            "LoggingBridge": "plughost.logging_bridge",
            "Malformed": "plughost.errors",
            "Mcptest": "plughost.contracts.mcptest.client",
            "MethodDescription": "plughost.wire.method_description",
            "Notified": "plughost.events",
            "Overloaded": "plughost.errors",
            "Plugin": "plughost.plugin",
            "PluginError": "plughost.errors",
            "PluginSpec": "plughost.spec",
            "Quarantined": "plughost.errors",
            "ResourceLimits": "plughost.permissions.access",
            "Rune": "plughost.contracts.rune.client",
            "SandboxUnavailable": "plughost.errors",
            "Spawned": "plughost.events",
            "StateChanged": "plughost.events",
            "Stopped": "plughost.errors",
            "Subscription": "plughost.events",
            "Timeout": "plughost.errors",
            "UnknownMethod": "plughost.errors",
            "Vai": "plughost.contracts.vai.client",
            "__version__": "plughost._version",
            "instrument": "plughost.telemetry",
        },
    )

__all__ = [
    "Access",
    "Ainb",
    "BudgetExceeded",
    "CallFailed",
    "CatalogueChanged",
    "CatalogueEntry",
    "CollateralFailure",
    "Crashed",
    "Denied",
    "Dropped",
    "Endpoint",
    "Event",
    "Exited",
    "HandshakeFailed",
    "Host",
    "HostFailed",
    "InvalidConfig",
    "InvalidSpec",
    "Kaged",
    "KagedContext",
    "LaunchFailed",
    "Linted",
    "Logged",
    "LoggingBridge",
    "Malformed",
    "Mcptest",
    "MethodDescription",
    "Notified",
    "Overloaded",
    "Plugin",
    "PluginError",
    "PluginSpec",
    "Quarantined",
    "ResourceLimits",
    "Rune",
    "SandboxUnavailable",
    "Spawned",
    "StateChanged",
    "Stopped",
    "Subscription",
    "Timeout",
    "UnknownMethod",
    "Vai",
    "__version__",
    "instrument",
]
