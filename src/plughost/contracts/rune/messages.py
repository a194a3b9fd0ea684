"""The messages of rune, with the field names of the wire. `null` equals absent for every member."""

from __future__ import annotations

from typing import Any

import msgspec

from plughost.wire.messages import NOTHING, Response


class HandshakeRequest(msgspec.Struct, tag="handshake"):
    """The line `handshake` that the host sends first."""

    protocol_version: str


class RuneManifest(msgspec.Struct):
    """The `manifest` in the plugin's `handshake` line."""

    plugin_id: str | None = None
    plugin_version: str | None = None
    protocol_version: str | None = None
    exposed_tools: list[str] | None = None
    capabilities: list[str] | None = None


class HandshakeResponse(msgspec.Struct):
    """The line `handshake` that the plugin answers."""

    type: str | None = None
    manifest: RuneManifest | None = None


class RuneContext(msgspec.Struct, omit_defaults=True, forbid_unknown_fields=True):
    """The `context` in the line `request`: where the call comes from."""

    workspace_id: str | None = None
    widget_id: str | None = None
    repo_root: str | None = None
    role_id: str | None = None
    mode_id: str | None = None


class ExecuteRequest(msgspec.Struct, tag="request"):
    """The line `request` that executes a tool."""

    request_id: str
    tool_name: str
    context: RuneContext
    input: Any


class RuneError(msgspec.Struct):
    """The `error` in the line `response`."""

    code: str | None = None
    message: str | None = None


class ExecuteResponse(msgspec.Struct):
    """The line `response` that the plugin answers to `request`."""

    type: str | None = None
    request_id: str | None = None
    status: str | None = None
    output: msgspec.Raw = NOTHING
    error: RuneError | None = None
    metadata: dict[str, msgspec.Raw] | None = None


class RuneAnswer(Response):
    """The decoded line `response`: the engine's Response, with rune's metadata."""

    metadata: dict[str, msgspec.Raw] | None = None
