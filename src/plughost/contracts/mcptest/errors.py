"""The host errors of mcptest, each with its reserved JSON-RPC error code."""

from __future__ import annotations

from typing import Any, ClassVar

from plughost.errors import CallFailed, Crashed, LaunchFailed, Malformed, Timeout

PARSE_ERROR = -32700
INVALID_RESPONSE = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603


class SpawnFailed(LaunchFailed):
    """The plugin's process could not be started."""

    code = "spawn_failed"
    rpc_code: ClassVar[int] = INTERNAL_ERROR


class PluginCrashed(Crashed):
    """The plugin's process exited before it answered; every later call reports the crash too."""

    rpc_code: ClassVar[int] = INTERNAL_ERROR


class TimedOut(Timeout):
    """The plugin did not answer within `call_timeout`."""

    rpc_code: ClassVar[int] = INTERNAL_ERROR


class InvalidJson(Malformed):
    """A response line is not JSON; `head` holds its beginning."""

    code = "invalid_json"
    remedy = "write only messages to stdout: print to stderr instead, or use the SDK, which does that for you"
    rpc_code: ClassVar[int] = PARSE_ERROR


class InvalidResponse(Malformed):
    """A response line is JSON, but not a valid response; `head` holds its beginning."""

    code = "invalid_response"
    remedy = (
        "answer each request with its `id` and either `result` or `error`; `plughost conform` checks that"
    )
    rpc_code: ClassVar[int] = INVALID_RESPONSE


class ApplicationError(CallFailed):
    """The plugin's own error response to the request `id`: not a host error. It is reported as it was
    received."""

    def __init__(self, message: str, *, id: int, **context: Any) -> None:
        super().__init__(message, **context)
        self.id = id

    def report(self) -> dict[str, Any]:
        return dict(self.error)
