"""What goes over rune's wire. `null` equals absent for every member."""

from __future__ import annotations

from typing import Any

import msgspec

from plughost.wire.messages import NOTHING, Response


class HandshakeRequest(msgspec.Struct, tag="handshake"):
    protocol_version: str


class RuneManifest(msgspec.Struct):
    plugin_id: str | None = None
    plugin_version: str | None = None
    protocol_version: str | None = None
    exposed_tools: list[str] | None = None
    capabilities: list[str] | None = None


class HandshakeResponse(msgspec.Struct):
    type: str | None = None
    manifest: RuneManifest | None = None


class RuneContext(msgspec.Struct, omit_defaults=True, forbid_unknown_fields=True):
    """Where a call comes from."""

    workspace_id: str | None = None
    widget_id: str | None = None
    repo_root: str | None = None
    role_id: str | None = None
    mode_id: str | None = None


class ExecuteRequest(msgspec.Struct, tag="request"):
    request_id: str
    tool_name: str
    context: RuneContext
    input: Any


class RuneError(msgspec.Struct):
    code: str | None = None
    message: str | None = None


class ExecuteResponse(msgspec.Struct):
    type: str | None = None
    request_id: str | None = None
    status: str | None = None
    output: msgspec.Raw = NOTHING
    error: RuneError | None = None
    metadata: dict[str, msgspec.Raw] | None = None


class RuneAnswer(Response):
    metadata: dict[str, msgspec.Raw] | None = None
