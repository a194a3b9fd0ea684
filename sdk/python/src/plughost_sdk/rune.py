"""rune plugins: tools, one process per call.

from plughost_sdk import rune

plugin = rune.Plugin("example.echo", "1.0.0", capabilities=["tool.execute"])

@plugin.tool
def echo(input, context):
    return input

plugin.run()

A tool takes its input, and the context if it has a second parameter. It returns a JSON value, or
`rune.Output(value, metadata)`, or raises `rune.Error`.
"""

from __future__ import annotations

import json
import sys

from plughost_sdk.handlers import Runner, log, log_failure
from plughost_sdk.wire import Lines

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any, TypeVar

    Tool = TypeVar("Tool", bound=Callable[..., Any])


class Error(Exception):
    """The tool's own answer that something is wrong."""

    def __init__(self, message: str, code: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.code = code


class Output:
    """A result with metadata."""

    def __init__(self, output: Any, metadata: dict[str, Any]) -> None:
        self.output = output
        self.metadata = metadata


class Plugin:
    wire = Lines

    def __init__(self, plugin_id: str, plugin_version: str, *, capabilities: Sequence[str] = ()) -> None:
        self._manifest = {"plugin_id": plugin_id, "plugin_version": plugin_version}
        self._capabilities = list(capabilities)
        self._tools: dict[str, Callable[..., Any]] = {}
        self._runner = Runner()

    def tool(self, name: str | Tool) -> Any:
        """Expose this function: `@plugin.tool`, or `@plugin.tool("another name")`."""
        if callable(name):
            return self._add(name.__name__, name)
        return lambda function: self._add(name, function)

    def _add(self, name: str, function: Tool) -> Tool:
        if name in self._tools:
            raise ValueError(f"there are two tools called {name!r}")
        self._tools[name] = function
        return function

    def run(self, wire: Lines | None = None) -> None:
        """One handshake, one request, one response."""
        wire = wire or Lines.claim()
        try:
            opening = wire.read()
            if opening is None:
                return
            wire.write(_encode(self._handshake(json.loads(opening))))
            line = wire.read()
            if line is not None:
                wire.write(_encode(self._respond(json.loads(line))))
                while wire.read() is not None:  # until the host is done, too
                    pass
        except BrokenPipeError:
            pass  # the host has gone
        except (ValueError, KeyError, TypeError) as error:
            log(f"the host said something that is no message of this protocol: {error!r}")
            sys.exit(1)
        finally:
            self._runner.close()

    def _handshake(self, opening: dict[str, Any]) -> dict[str, Any]:
        manifest = {
            **self._manifest,
            "protocol_version": opening["protocol_version"],
            "exposed_tools": sorted(self._tools),
        }
        if self._capabilities:
            manifest["capabilities"] = self._capabilities
        return {"type": "handshake", "manifest": manifest}

    def _respond(self, request: dict[str, Any]) -> dict[str, Any]:
        answer = {"type": "response", "request_id": request["request_id"]}
        try:
            output = self._call(request)
        except Error as error:
            return {
                **answer,
                "status": "error",
                "error": {"code": error.code, "message": error.message or "error"},
            }
        except Exception as error:
            log_failure()
            said = {"code": type(error).__name__, "message": str(error) or type(error).__name__}
            return {**answer, "status": "error", "error": said}
        if isinstance(output, Output):
            return {**answer, "status": "ok", "output": output.output, "metadata": output.metadata}
        return {**answer, "status": "ok", "output": output}

    def _call(self, request: dict[str, Any]) -> Any:
        name = request["tool_name"]
        tool = self._tools.get(name)
        if tool is None:
            raise Error(f"no tool {name!r}; there are: {', '.join(sorted(self._tools))}", "unknown_tool")
        arguments = [request.get("input"), request.get("context", {})][: tool.__code__.co_argcount]
        return self._runner.run(tool, *arguments)


def _encode(message: dict[str, Any]) -> bytes:
    return json.dumps(message, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
