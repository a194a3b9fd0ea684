"""The frames of vai.rpc.v1, with the field names of the wire. Unknown members are ignored."""

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
"""The op of a request, by the kind of the export."""


class VaiAbout(msgspec.Struct, frozen=True):
    """The `host` in the frame `hello` of a host: its name and version."""

    name: str
    version: str


class Identity(msgspec.Struct, frozen=True):
    """The `plugin` in the frame `hello` of a plugin: its package and version."""

    package_id: str
    version: str

    def __str__(self) -> str:
        return f"{self.package_id} {self.version}"


class VaiError(msgspec.Struct, frozen=True):
    """The `error` in the frame `response` with `ok: false`."""

    code: str
    message: str


class _Frame(msgspec.Struct, kw_only=True):
    protocol: str = PROTOCOL


class HostHello(_Frame, kw_only=True):
    """The frame `hello` of the host."""

    type: str = "hello"
    role: str = "host"
    host: VaiAbout


class PluginHello(_Frame, kw_only=True):
    """The frame `hello` of the plugin."""

    type: str = "hello"
    role: str = "plugin"
    plugin: Identity


class VaiRequest(_Frame, kw_only=True):
    """The frame `request`."""

    type: str = "request"
    id: str
    op: str
    body: Any


class VaiEvent(_Frame, kw_only=True):
    """The frame `event` of a running request."""

    type: str = "event"
    request_id: str
    event: Any


class VaiResponse(_Frame, kw_only=True):
    """The frame `response` with `ok: true`."""

    type: str = "response"
    id: str
    ok: bool = True
    body: Any


class VaiRefusal(_Frame, kw_only=True):
    """The frame `response` with `ok: false`."""

    type: str = "response"
    id: str
    ok: bool = False
    error: VaiError


class Cancel(_Frame, kw_only=True):
    """The frame `cancel` of a running request."""

    type: str = "cancel"
    request_id: str
    reason: str


class VaiShutdown(_Frame, kw_only=True):
    """The frame `shutdown`."""

    type: str = "shutdown"


class VaiEnvelope(msgspec.Struct, gc=False):
    """A received frame of any type. Members of a single type stay raw JSON and are decoded once the type is
    known."""

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
