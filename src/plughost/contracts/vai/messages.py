"""The frames of vai.rpc.v1, by the names they have on the wire. Unknown members are ignored."""

from __future__ import annotations

from typing import Any

import msgspec

from plughost.contracts.vai.manifest import PROTOCOL
from plughost.wire.messages import NOTHING

OPS = {
    "tool": "tool.invoke",
    "hook": "hook.handle",
    "compactor": "compactor.compact",
    "harness": "harness.run",
}
"""What is asked of an export, by its kind."""


class VaiAbout(msgspec.Struct, frozen=True):
    """A host, as it introduces itself."""

    name: str
    version: str


class Identity(msgspec.Struct, frozen=True):
    """A plugin, as it introduces itself."""

    package_id: str
    version: str

    def __str__(self) -> str:
        return f"{self.package_id} {self.version}"


class VaiError(msgspec.Struct, frozen=True):
    code: str
    message: str


class _Frame(msgspec.Struct, kw_only=True):
    protocol: str = PROTOCOL


class HostHello(_Frame, kw_only=True):
    type: str = "hello"
    role: str = "host"
    host: VaiAbout


class PluginHello(_Frame, kw_only=True):
    type: str = "hello"
    role: str = "plugin"
    plugin: Identity


class VaiRequest(_Frame, kw_only=True):
    type: str = "request"
    id: str
    op: str
    body: Any


class VaiEvent(_Frame, kw_only=True):
    type: str = "event"
    request_id: str
    event: Any


class VaiResponse(_Frame, kw_only=True):
    type: str = "response"
    id: str
    ok: bool = True
    body: Any


class VaiRefusal(_Frame, kw_only=True):
    type: str = "response"
    id: str
    ok: bool = False
    error: VaiError


class Cancel(_Frame, kw_only=True):
    type: str = "cancel"
    request_id: str
    reason: str


class VaiShutdown(_Frame, kw_only=True):
    type: str = "shutdown"


class VaiEnvelope(msgspec.Struct, gc=False):
    """Anything that came. What only one type of frame has is looked at when the type is known."""

    protocol: str = ""
    type: str = ""
    id: str | None = None
    request_id: str | None = None
    op: str | None = None
    role: msgspec.Raw = NOTHING
    plugin: msgspec.Raw = NOTHING
    event: msgspec.Raw = NOTHING
    ok: msgspec.Raw = NOTHING
    body: msgspec.Raw = NOTHING
    error: msgspec.Raw = NOTHING
    reason: msgspec.Raw = NOTHING
