"""For authors of contracts: what to implement, the values it speaks in, and its conformance axes.

A contract is an object of the shape of `Contract`, found by the entry-point group `plughost.contracts`. Its
session decides what bytes mean, without any I/O; the engine does the rest.
"""

TYPE_CHECKING = False  # importing typing would take longer than all of this
if TYPE_CHECKING:
    from plughost.conformance.axis import Axis, require
    from plughost.conformance.plugin_under_test import PluginUnderTest
    from plughost.contracts.base import (
        BaseContract,
        Contract,
        DataFolder,
        GrantEffect,
        Permissions,
        ResolvedSpec,
        SandboxNeeds,
    )
    from plughost.contracts.jsonrpc import JsonRpc
    from plughost.contracts.registry import contract_names, get_contract
    from plughost.contracts.resolve import check_runnable, folder_of, from_host, read_options
    from plughost.contracts.settings import (
        AUTHOR_MAY_LOWER,
        AUTHOR_MAY_SET,
        author_may_set_up_to,
        author_may_strengthen,
    )
    from plughost.engine.io.channel import Channel
    from plughost.engine.link import BaseLink, Link, LinkCallbacks, OpenLink
    from plughost.engine.policy import HealthPolicy, LifecyclePolicy, ShutdownPolicy
    from plughost.engine.session import BaseSession, Incoming, Session
    from plughost.errors import CallFailed, Denied, HandshakeFailed, InvalidSpec, Malformed, PluginError
    from plughost.permissions.access import Access
    from plughost.permissions.capability import Capability
    from plughost.services.base import BaseService, LogService, Service, ServiceContext
    from plughost.services.host_method import HostMethod
    from plughost.spec import PluginSpec
    from plughost.wire.framing import ContentLength, Frame, FrameError, Framing, Lines
    from plughost.wire.messages import (
        ABSENT,
        NOTHING,
        Notification,
        Progress,
        Reply,
        Request,
        Response,
        Unusable,
        encode,
    )
else:
    from plughost._util.lazy import lazy_exports

    __getattr__, __dir__ = lazy_exports(
        __name__,
        {
            "ABSENT": "plughost.wire.messages",
            "AUTHOR_MAY_LOWER": "plughost.contracts.settings",
            "AUTHOR_MAY_SET": "plughost.contracts.settings",
            "Access": "plughost.permissions.access",
            "Axis": "plughost.conformance.axis",
            "BaseContract": "plughost.contracts.base",
            "BaseLink": "plughost.engine.link",
            "BaseService": "plughost.services.base",
            "BaseSession": "plughost.engine.session",
            "CallFailed": "plughost.errors",
            "Capability": "plughost.permissions.capability",
            "Channel": "plughost.engine.io.channel",
            "ContentLength": "plughost.wire.framing",
            "Contract": "plughost.contracts.base",
            "DataFolder": "plughost.contracts.base",
            "Denied": "plughost.errors",
            "Frame": "plughost.wire.framing",
            "FrameError": "plughost.wire.framing",
            "Framing": "plughost.wire.framing",
            "GrantEffect": "plughost.contracts.base",
            "HandshakeFailed": "plughost.errors",
            "HealthPolicy": "plughost.engine.policy",
            "HostMethod": "plughost.services.host_method",
            "Incoming": "plughost.engine.session",
            "InvalidSpec": "plughost.errors",
            "JsonRpc": "plughost.contracts.jsonrpc",
            "LifecyclePolicy": "plughost.engine.policy",
            "Lines": "plughost.wire.framing",
            "Link": "plughost.engine.link",
            "LinkCallbacks": "plughost.engine.link",
            "LogService": "plughost.services.base",
            "Malformed": "plughost.errors",
            "NOTHING": "plughost.wire.messages",
            "Notification": "plughost.wire.messages",
            "OpenLink": "plughost.engine.link",
            "Permissions": "plughost.contracts.base",
            "PluginError": "plughost.errors",
            "PluginSpec": "plughost.spec",
            "PluginUnderTest": "plughost.conformance.plugin_under_test",
            "Progress": "plughost.wire.messages",
            "Reply": "plughost.wire.messages",
            "Request": "plughost.wire.messages",
            "ResolvedSpec": "plughost.contracts.base",
            "Response": "plughost.wire.messages",
            "SandboxNeeds": "plughost.contracts.base",
            "Service": "plughost.services.base",
            "ServiceContext": "plughost.services.base",
            "Session": "plughost.engine.session",
            "ShutdownPolicy": "plughost.engine.policy",
            "Unusable": "plughost.wire.messages",
            "author_may_set_up_to": "plughost.contracts.settings",
            "author_may_strengthen": "plughost.contracts.settings",
            "check_runnable": "plughost.contracts.resolve",
            "contract_names": "plughost.contracts.registry",
            "encode": "plughost.wire.messages",
            "folder_of": "plughost.contracts.resolve",
            "from_host": "plughost.contracts.resolve",
            "get_contract": "plughost.contracts.registry",
            "read_options": "plughost.contracts.resolve",
            "require": "plughost.conformance.axis",
        },
    )

__all__ = [
    "ABSENT",
    "AUTHOR_MAY_LOWER",
    "AUTHOR_MAY_SET",
    "NOTHING",
    "Access",
    "Axis",
    "BaseContract",
    "BaseLink",
    "BaseService",
    "BaseSession",
    "CallFailed",
    "Capability",
    "Channel",
    "ContentLength",
    "Contract",
    "DataFolder",
    "Denied",
    "Frame",
    "FrameError",
    "Framing",
    "GrantEffect",
    "HandshakeFailed",
    "HealthPolicy",
    "HostMethod",
    "Incoming",
    "InvalidSpec",
    "JsonRpc",
    "LifecyclePolicy",
    "Lines",
    "Link",
    "LinkCallbacks",
    "LogService",
    "Malformed",
    "Notification",
    "OpenLink",
    "Permissions",
    "PluginError",
    "PluginSpec",
    "PluginUnderTest",
    "Progress",
    "Reply",
    "Request",
    "ResolvedSpec",
    "Response",
    "SandboxNeeds",
    "Service",
    "ServiceContext",
    "Session",
    "ShutdownPolicy",
    "Unusable",
    "author_may_set_up_to",
    "author_may_strengthen",
    "check_runnable",
    "contract_names",
    "encode",
    "folder_of",
    "from_host",
    "get_contract",
    "read_options",
    "require",
]
