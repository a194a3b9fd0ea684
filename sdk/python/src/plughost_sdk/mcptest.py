"""mcptest plugins: methods that answer requests, one at a time.

from plughost_sdk import mcptest

plugin = mcptest.Plugin()

@plugin.method
def echo(params):
    return params

@plugin.method("ping")
async def pong():
    return "pong"

plugin.run()

A method takes the params, or nothing. It returns a JSON value, or raises `mcptest.Error`. mcptest's own host
takes a result of null for a missing one: return `{}` rather than None.
"""

from __future__ import annotations

import json

from plughost_sdk.handlers import log, log_failure
from plughost_sdk.hooks import Either, Hooked
from plughost_sdk.message import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    PARSE_ERROR,
    Error,
    NotJson,
    encode,
)
from plughost_sdk.wire import Lines

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = [
    "INTERNAL_ERROR", "INVALID_PARAMS", "INVALID_REQUEST", "METHOD_NOT_FOUND", "PARSE_ERROR",
    "Error", "Plugin",
]  # fmt: skip

_ABSENT = object()


class Plugin(Hooked):
    wire = Lines

    method = Either("params")
    """Answers requests: `@plugin.method`, or `@plugin.method("another name")`."""

    def run(self, wire: Lines | None = None) -> None:
        """Answer until the host has no more to ask."""
        wire = wire or Lines.claim()
        try:
            while (line := wire.read()) is not None:
                wire.write(self._reply(line))
        except BrokenPipeError:
            pass  # the host has gone
        finally:
            self._runner.close()

    def _reply(self, line: bytes) -> bytes:
        number: Any = None
        name: Any = None
        try:
            request = _decode(line)
            number, name = request.get("id"), request.get("method")
            return encode({"id": number, "result": self._call(name, request)})
        except Error as error:
            refusal = error
        except NotJson as error:
            refusal = Error(INTERNAL_ERROR, f"{name} returned something that JSON cannot represent: {error}")
            log(refusal.message)
        except Exception as error:
            log_failure()
            refusal = Error(INTERNAL_ERROR, f"{type(error).__name__}: {error}")
        return encode({"id": number, "error": refusal.to_wire()})

    def _call(self, name: Any, request: dict[str, Any]) -> Any:
        handler = self._one("method", name) if isinstance(name, str) else None
        if handler is None:
            known = ", ".join(self._names("method")) or "none"
            raise Error(METHOD_NOT_FOUND, f"no method {name!r}; there are: {known}")
        params = request.get("params", _ABSENT)
        if params is not _ABSENT:
            return self._runner.run(handler, params)
        if handler.least:
            raise Error(INVALID_PARAMS, f"{name} needs params")
        return self._runner.run(handler)


def _decode(line: bytes) -> dict[str, Any]:
    try:
        request = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise Error(PARSE_ERROR, f"not JSON: {error}") from None
    if not isinstance(request, dict):
        raise Error(INVALID_REQUEST, "a request is an object")
    return request
