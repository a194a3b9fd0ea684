"""The error codes of rune; the others of its nine codes are those of the engine."""

from __future__ import annotations

from typing import Any

from plughost.errors import CallFailed, Denied, HandshakeFailed, Malformed


class MalformedResponse(Malformed):
    """The plugin wrote a line that is not a valid message of the protocol."""

    code = "malformed_response"
    remedy = "write one JSON object per line, and nothing else, to stdout; print to stderr instead"


class ProtocolVersionMismatch(HandshakeFailed):
    """The plugin's protocol version differs from the host's."""

    code = "protocol_version_mismatch"
    remedy = "set `protocol` to the version that the plugin speaks, or update the plugin"


class ToolNotExposed(Denied):
    """The plugin's manifest does not expose the tool that was called."""

    code = "tool_not_exposed"
    remedy = "call a tool that the plugin's manifest lists, or add the tool to the manifest"


class CapabilityNotDeclared(Denied):
    """Capabilities are granted but the plugin declares none, or a declared capability is not a valid word."""

    code = "capability_not_declared"
    remedy = "declare the capability in the plugin's manifest, or do not grant it"


class CapabilityNotAllowed(Denied):
    """The plugin declares a capability that is not granted."""

    code = "capability_not_allowed"
    remedy = "grant the capability: --grant WORD, or `grants` in your plughost.toml"


class ExecutionError(CallFailed):
    """The plugin answered with `status: error`; `error` holds its code and message."""

    code = "execution_error"

    def report(self) -> dict[str, Any]:
        return {**super().report(), "plugin_error": self.error}
