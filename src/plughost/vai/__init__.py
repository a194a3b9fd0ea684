"""vai on one machine: install and trust packages, bind their exports to tenants, and invoke them.

async with vai.VaiRuntime("state", vai.FolderPackage("hello"), vai.FixedBindings([binding])) as runtime:
    outcome = await runtime.invoke(vai.Invocation(binding=binding, work=vai.ToolRequest(...)))
"""

TYPE_CHECKING = False  # importing typing would take longer than all of this
if TYPE_CHECKING:
    from plughost.vai.bindings.binding import Binding, BindingPolicy, Scope
    from plughost.vai.bindings.bindings import Bindings, FixedBindings
    from plughost.vai.bindings.package import PackageSource
    from plughost.vai.bindings.package_source import FolderPackage, InstalledPackages
    from plughost.vai.bindings.secret_source import SecretFolder, SecretSource, SecretUse
    from plughost.vai.invocations.invocation import Invocation, Related
    from plughost.vai.invocations.invoker import StartedInvocation
    from plughost.vai.invocations.options import InvokerOptions
    from plughost.vai.invocations.outcome import Outcome
    from plughost.vai.invocations.requests import CompactionRequest, HarnessRequest, HookRequest, ToolRequest
    from plughost.vai.packages.install import install
    from plughost.vai.packages.pack import pack
    from plughost.vai.packages.pull import pull
    from plughost.vai.packages.push import push
    from plughost.vai.packages.sign import sign
    from plughost.vai.packages.store.store import Store
    from plughost.vai.packages.trust.publishers import TrustedPublishers
    from plughost.vai.packages.verify import verify_package
    from plughost.vai.records.retention import RecordLimits, Retention
    from plughost.vai.runtime import VaiRuntime
else:
    from plughost._util.lazy import lazy_exports

    __getattr__, __dir__ = lazy_exports(
        __name__,
        {
            "Binding": "plughost.vai.bindings.binding",
            "BindingPolicy": "plughost.vai.bindings.binding",
            "Bindings": "plughost.vai.bindings.bindings",
            "CompactionRequest": "plughost.vai.invocations.requests",
            "FixedBindings": "plughost.vai.bindings.bindings",
            "FolderPackage": "plughost.vai.bindings.package_source",
            "HarnessRequest": "plughost.vai.invocations.requests",
            "HookRequest": "plughost.vai.invocations.requests",
            "InstalledPackages": "plughost.vai.bindings.package_source",
            "Invocation": "plughost.vai.invocations.invocation",
            "InvokerOptions": "plughost.vai.invocations.options",
            "Outcome": "plughost.vai.invocations.outcome",
            "PackageSource": "plughost.vai.bindings.package",
            "RecordLimits": "plughost.vai.records.retention",
            "Related": "plughost.vai.invocations.invocation",
            "Retention": "plughost.vai.records.retention",
            "Scope": "plughost.vai.bindings.binding",
            "SecretFolder": "plughost.vai.bindings.secret_source",
            "SecretSource": "plughost.vai.bindings.secret_source",
            "SecretUse": "plughost.vai.bindings.secret_source",
            "StartedInvocation": "plughost.vai.invocations.invoker",
            "Store": "plughost.vai.packages.store.store",
            "ToolRequest": "plughost.vai.invocations.requests",
            "TrustedPublishers": "plughost.vai.packages.trust.publishers",
            "VaiRuntime": "plughost.vai.runtime",
            "install": "plughost.vai.packages.install",
            "pack": "plughost.vai.packages.pack",
            "pull": "plughost.vai.packages.pull",
            "push": "plughost.vai.packages.push",
            "sign": "plughost.vai.packages.sign",
            "verify_package": "plughost.vai.packages.verify",
        },
    )

__all__ = [
    "Binding",
    "BindingPolicy",
    "Bindings",
    "CompactionRequest",
    "FixedBindings",
    "FolderPackage",
    "HarnessRequest",
    "HookRequest",
    "InstalledPackages",
    "Invocation",
    "InvokerOptions",
    "Outcome",
    "PackageSource",
    "RecordLimits",
    "Related",
    "Retention",
    "Scope",
    "SecretFolder",
    "SecretSource",
    "SecretUse",
    "StartedInvocation",
    "Store",
    "ToolRequest",
    "TrustedPublishers",
    "VaiRuntime",
    "install",
    "pack",
    "pull",
    "push",
    "sign",
    "verify_package",
]
