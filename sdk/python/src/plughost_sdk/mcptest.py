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

A method takes the params, or nothing. It returns a JSON value, or raises `mcptest.Error`.
"""

from __future__ import annotations

import json

from plughost_sdk.handlers import Runner, log_failure
from plughost_sdk.wire import Lines

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeVar

    Method = TypeVar("Method", bound=Callable[..., Any])

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603

_ABSENT = object()


class Error(Exception):
    """The plugin's own answer that something is wrong."""

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.data = data


class Plugin:
    wire = Lines

    def __init__(self) -> None:
        self._methods: dict[str, Callable[..., Any]] = {}
        self._runner = Runner()

    def method(self, name: str | Method) -> Any:
        """Answer requests with this function: `@plugin.method`, or `@plugin.method("another name")`."""
        if callable(name):
            return self._add(name.__name__, name)
        return lambda function: self._add(name, function)

    def _add(self, name: str, function: Method) -> Method:
        if name in self._methods:
            raise ValueError(f"there are two methods called {name!r}")
        self._methods[name] = function
        return function

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
        try:
            request = _decode(line)
            number = request.get("id")
            return _encode({"id": number, "result": self._call(request)})
        except Error as error:
            said = {"code": error.code, "message": error.message}
            if error.data is not None:
                said["data"] = error.data
        except Exception as error:
            log_failure()
            said = {"code": INTERNAL_ERROR, "message": f"{type(error).__name__}: {error}"}
        return _encode({"id": number, "error": said})

    def _call(self, request: dict[str, Any]) -> Any:
        name = request.get("method")
        function = self._methods.get(name) if isinstance(name, str) else None
        if function is None:
            known = ", ".join(sorted(self._methods))
            raise Error(METHOD_NOT_FOUND, f"no method {name!r}; there are: {known}")
        params = request.get("params", _ABSENT)
        wants = function.__code__.co_argcount - len(function.__defaults__ or ())
        if params is _ABSENT and wants:
            raise Error(INVALID_PARAMS, f"{name} needs params")
        if params is _ABSENT or not function.__code__.co_argcount:
            return self._runner.run(function)
        return self._runner.run(function, params)


def _decode(line: bytes) -> dict[str, Any]:
    try:
        request = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise Error(PARSE_ERROR, f"not JSON: {error}") from None
    if not isinstance(request, dict):
        raise Error(INVALID_REQUEST, "a request is an object")
    return request


def _encode(message: dict[str, Any]) -> bytes:
    return json.dumps(message, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
