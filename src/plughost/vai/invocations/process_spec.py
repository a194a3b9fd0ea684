"""The PluginSpec of a worker process: granted permissions as sandbox access, resource limits and options."""

from __future__ import annotations

from pathlib import Path

import msgspec

from plughost.contracts.vai.contract import spec_of
from plughost.contracts.vai.manifest import Export
from plughost.permissions.access import Access, Endpoint, ResourceLimits
from plughost.spec import PluginSpec
from plughost.vai.bindings.package import Package
from plughost.vai.bindings.permissions import DEFAULT_CONCURRENCY, GrantedPermissions

GATEWAY_HOST = "gateway.vai.internal"
"""Reserved host name: inside a sandbox it leads to the gateway's unix socket."""
WEB_PORTS = (80, 443)
BLOCK = 4096
"""Bytes by which a file may exceed the scratch limit, so that a measurement can detect the excess."""
NO_BYTECODE = {"PYTHONDONTWRITEBYTECODE": "1"}
"""Keeps Python without a sandbox from writing `__pycache__` into the installed package, whose files are
verified."""
MAX_SHARED_REQUESTS = 1024
"""Concurrent requests of a process that serves every tenant; each tenant is limited by its own binding."""


def process_spec(
    package: Package,
    export: Export,
    granted: GrantedPermissions,
    *,
    name: str,
    scratch: str | None,
    gateway_socket: str | None,
    limits: ResourceLimits,
    sandbox: str,
) -> PluginSpec:
    """Builds the spec of a process that runs one export with the permissions it was granted."""
    endpoints: list[Endpoint] = []
    if granted.network == "egress":
        for host in ("*",) if granted.egress_domains is None else granted.egress_domains:
            endpoints += [Endpoint(host, 0)] if host == "*" else [Endpoint(host, port) for port in WEB_PORTS]
    if granted.scopes and gateway_socket is not None:
        endpoints.append(Endpoint(GATEWAY_HOST, 80, socket=gateway_socket))
    return msgspec.structs.replace(
        spec_of(Path(package.folder), name=name, parsed=package.manifest),
        sandbox=sandbox,
        allow=Access(connect=tuple(endpoints)),
        env={} if package.check is None else NO_BYTECODE,
        limits=limits if scratch is None else _limit_file_size(limits),
        options={
            "exports": [export.id],
            "max_in_flight": _max_in_flight(export, granted),
            "filesystem": granted.filesystem,
            "failure_limit": 1,  # the pool starts another process instead of restarting this one
            **({} if scratch is None else {"scratch": scratch}),
        },
    )


def _max_in_flight(export: Export, granted: GrantedPermissions) -> int:
    """Concurrent requests per process; one where it may write, because all requests write to the same
    places."""
    if granted.filesystem == "scratch":
        return 1
    if granted.execution_class == "inline":
        return MAX_SHARED_REQUESTS
    return (
        export.max_concurrency or DEFAULT_CONCURRENCY
    )  # a binding with a lower limit has its ConcurrencyLimit


def _limit_file_size(limits: ResourceLimits) -> ResourceLimits:
    """Limits the size of a single file to that of the scratch folder, so that the kernel enforces it."""
    sizes = [limits.file_size, None if limits.scratch is None else limits.scratch + BLOCK]
    return msgspec.structs.replace(
        limits, file_size=min((size for size in sizes if size is not None), default=None)
    )
