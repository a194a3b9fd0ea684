"""The host errors of mcptest, each with the reserved code that stands for it."""

from __future__ import annotations

from typing import Any, ClassVar

from plughost.errors import CallFailed, Crashed, LaunchFailed, Malformed, Timeout

PARSE_ERROR = -32700
INVALID_RESPONSE = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603


class SpawnFailed(LaunchFailed):
    code = "spawn_failed"
    rpc_code: ClassVar[int] = INTERNAL_ERROR


class PluginCrashed(Crashed):
    rpc_code: ClassVar[int] = INTERNAL_ERROR


class TimedOut(Timeout):
    rpc_code: ClassVar[int] = INTERNAL_ERROR


class InvalidJson(Malformed):
    """The line was no JSON; `head` holds it."""

    code = "invalid_json"
    rpc_code: ClassVar[int] = PARSE_ERROR


class InvalidResponse(Malformed):
    """The line was JSON of the wrong shape; `head` holds it."""

    code = "invalid_response"
    rpc_code: ClassVar[int] = INVALID_RESPONSE


class ApplicationError(CallFailed):
    """The plugin's own error, to the request `id`: not a host error. It is reported as it came."""

    def __init__(self, message: str, *, id: int, **context: Any) -> None:
        super().__init__(message, **context)
        self.id = id

    def report(self) -> dict[str, Any]:
        return dict(self.error)
