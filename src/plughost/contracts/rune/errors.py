"""rune's own names for what goes wrong; the others of its nine codes are the engine's."""

from __future__ import annotations

from typing import Any

from plughost.errors import CallFailed, Denied, HandshakeFailed, Malformed


class MalformedResponse(Malformed):
    code = "malformed_response"


class ProtocolVersionMismatch(HandshakeFailed):
    code = "protocol_version_mismatch"


class ToolNotExposed(Denied):
    code = "tool_not_exposed"


class CapabilityNotDeclared(Denied):
    code = "capability_not_declared"


class CapabilityNotAllowed(Denied):
    code = "capability_not_allowed"


class ExecutionError(CallFailed):
    """The plugin's own `status: error`; `error` holds its code and message."""

    code = "execution_error"

    def report(self) -> dict[str, Any]:
        return {**super().report(), "plugin_error": self.error}
