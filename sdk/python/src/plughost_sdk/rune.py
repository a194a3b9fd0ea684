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

from plughost_sdk.handlers import log, log_failure
from plughost_sdk.hooks import Either, Hooked
from plughost_sdk.message import NotJson, encode, printable
from plughost_sdk.wire import Lines

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

__all__ = ["MAX_LINE", "PROTOCOL", "Error", "Output", "Plugin"]

PROTOCOL = "rterm.plugin.v1"
MAX_LINE = 1 << 20
"""Bytes of an answer that a host reads."""
MAX_MESSAGE = 64 << 10


class Error(Exception):
    """The tool's own answer that something is wrong."""

    def __init__(self, message: str, code: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.code = code

    def to_wire(self) -> dict[str, str]:
        """A blank message would make the answer malformed."""
        said = printable(str(self.message)).strip() or str(self.code) or "error"
        return {"code": printable(str(self.code)), "message": said[:MAX_MESSAGE]}


class Output:
    """A result with metadata."""

    def __init__(self, output: Any, metadata: dict[str, Any]) -> None:
        if not isinstance(metadata, dict):
            raise TypeError(f"metadata is a dict, not {metadata!r:.60}: Output(value, {{'key': 'value'}})")
        self.output = output
        self.metadata = metadata


class Plugin(Hooked):
    wire = Lines

    tool = Either("input", "context")
    """Exposes a tool: `@plugin.tool`, or `@plugin.tool("another name")`."""

    def __init__(self, plugin_id: str, plugin_version: str, *, capabilities: Sequence[str] = ()) -> None:
        super().__init__()
        for what, value in (("plugin_id", plugin_id), ("plugin_version", plugin_version)):
            if not isinstance(value, str) or not value.strip():
                raise ValueError(f"{what} is text, not {value!r}: Plugin('example.echo', '1.0.0')")
        if isinstance(capabilities, str):
            raise TypeError(f"capabilities is a list: capabilities=[{capabilities!r}]")
        self._about = {"plugin_id": plugin_id, "plugin_version": plugin_version, "protocol_version": PROTOCOL}
        self._capabilities = [*capabilities]

    def run(self, wire: Lines | None = None) -> None:
        """One handshake, one request, one response."""
        manifest = self._manifest()
        wire = wire or Lines.claim()
        try:
            if wire.read() is None:
                return
            wire.write(encode({"type": "handshake", "manifest": manifest}))
            line = wire.read()
            if line is not None:
                wire.write(self._respond(_request(line)))
                while wire.read() is not None:  # until the host is done, too
                    pass
        except BrokenPipeError:
            pass  # the host has gone
        except ValueError as error:
            log(f"the host sent something that is not a request of this protocol: {error}")
            sys.exit(1)
        finally:
            self._runner.close()

    def _manifest(self) -> dict[str, Any]:
        tools = self._names("tool")
        if not tools:
            raise RuntimeError("a rune plugin has at least one tool: write @plugin.tool above a function")
        asked = {"capabilities": self._capabilities} if self._capabilities else {}
        return {**self._about, "exposed_tools": tools, **asked}

    def _respond(self, request: dict[str, Any]) -> bytes:
        said = {"type": "response", "request_id": request["request_id"]}
        try:
            line = encode({**said, "status": "ok", **self._call(request)})
            if len(line) <= MAX_LINE:
                return line
            refusal = Error(
                f"the output is too large: {len(line)} bytes; the maximum is {MAX_LINE}", "output_too_large"
            )
        except Error as error:
            refusal = error
        except NotJson as error:
            refusal = Error(
                f"{request['tool_name']} returned something that JSON cannot represent: {error}", "not_json"
            )
            log(refusal.message)
        except Exception as error:
            log_failure()
            refusal = Error(str(error), type(error).__name__)
        return encode({**said, "status": "error", "error": refusal.to_wire()})

    def _call(self, request: dict[str, Any]) -> dict[str, Any]:
        name = request["tool_name"]
        tool = self._one("tool", name)
        if tool is None:
            raise Error(f"no tool {name!r}; there are: {', '.join(self._names('tool'))}", "unknown_tool")
        output = self._runner.run(tool, request.get("input"), request.get("context", {}))
        if isinstance(output, Output):
            return {"output": output.output, "metadata": output.metadata}
        return {"output": output}


def _request(line: bytes) -> dict[str, Any]:
    request = json.loads(line)
    if not isinstance(request, dict):
        raise ValueError(f"not an object: {line[:80]!r}")
    for name in ("request_id", "tool_name"):
        if not isinstance(request.get(name), str):
            raise ValueError(f"no {name}")
    return request
