"""One conversation with the host: frames in, each request in a thread of its own, frames out."""

from __future__ import annotations

import json
import threading
import time

from plughost_sdk.handlers import log
from plughost_sdk.message import encode
from plughost_sdk.vai import outcome
from plughost_sdk.vai.call import Call, Loop
from plughost_sdk.wire import TooLarge

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from plughost_sdk.vai.export import Export
    from plughost_sdk.wire import LspContentLength

PROTOCOL = "vai.rpc.v1"
INVALID_FRAME = "protocol.invalid_frame"
KINDS = {
    "tool.invoke": "tool",
    "hook.handle": "hook",
    "compactor.compact": "compactor",
    "harness.run": "harness",
}
FINISH = 3.0
"""Seconds in which what runs at the end may finish; then it is cancelled."""
GRACE = 1.0
"""And from then on; then the process goes, and it with it. A host waits for five."""


class Session:
    def __init__(
        self, wire: LspContentLength, identity: dict[str, str], exports: Mapping[tuple[str, str], Export]
    ) -> None:
        self._wire = wire
        self._identity = identity
        self._exports = exports
        self._writing = threading.Lock()
        self._open: dict[str, Call] = {}
        self._loop = Loop()

    def serve(self) -> None:
        """Until the host says shutdown, or has gone."""
        try:
            while (frame := self._wire.read()) is not None:
                message = _decoded(frame)
                if message.get("type") == "shutdown":
                    break
                if dropped := self._take(message):
                    log(f"dropped a frame, {dropped}: {frame[:80]!r}")
        except BrokenPipeError:
            pass
        finally:
            self._end()

    def _end(self) -> None:
        self._wait(FINISH)
        for call in [*self._open.values()]:
            call.cancel("shutdown")
        self._wait(GRACE)
        self._loop.close()

    def _wait(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        for call in [*self._open.values()]:
            call.thread.join(max(0.0, end - time.monotonic()))

    def _take(self, message: dict[str, Any]) -> str | None:
        """Why it is dropped, if it is. What is wrong and has an id is refused instead."""
        kind, number = message.get("type"), message.get("id")
        fault = _fault(message)
        if fault is None and kind == "hello":
            self._send({"type": "hello", "role": "plugin", "plugin": self._identity})
        elif fault is None and kind == "cancel":
            if call := self._open.get(str(message.get("request_id"))):
                call.cancel(str(message.get("reason") or "cancelled"))
        elif not isinstance(number, str) or number in self._open:
            return fault or "without an id of its own"
        elif fault := fault or self._begin(number, message):
            error = {"code": INVALID_FRAME, "message": fault}
            self._send({"type": "response", "id": number, "ok": False, "error": error})
        return None

    def _begin(self, number: str, message: dict[str, Any]) -> str | None:
        """Begin a call, or what is wrong with it."""
        op, body = message.get("op"), message.get("body")
        if not isinstance(body, dict):
            return "missing body"
        kind = KINDS.get(op) if isinstance(op, str) else None
        if kind is None:
            return f"unknown op {op!r:.80}"
        if not isinstance(body.get("context"), dict):
            return "missing context"
        export = self._exports.get((kind, str(body.get("export_id"))))
        if export is None:
            self._send(_response(number, outcome.problem("export.unknown", "it has no such export")))
            return None
        call = Call(export, body, self._loop, lambda event: self._emit(number, event))
        self._open[number] = call
        call.thread = threading.Thread(target=self._run, args=(number, call), daemon=True)
        call.thread.start()
        return None

    def _run(self, number: str, call: Call) -> None:
        body = call.run()
        try:
            try:
                self._finish(number, _response(number, body))
            except TooLarge as error:
                self._finish(number, _response(number, call.failed(str(error))))
        except BrokenPipeError:
            pass  # the host has gone, and the reader learns it, too

    def _finish(self, number: str, response: dict[str, Any]) -> None:
        frame = encode({"protocol": PROTOCOL, **response})
        with self._writing:  # no event of the call comes after this
            self._wire.write(frame)
            del self._open[number]

    def _emit(self, number: str, event: dict[str, Any]) -> None:
        frame = encode({"protocol": PROTOCOL, "type": "event", "request_id": number, "event": event})
        with self._writing:
            if number not in self._open:
                raise RuntimeError("the call has ended: send events before its answer")
            self._wire.write(frame)

    def _send(self, message: dict[str, Any]) -> None:
        with self._writing:
            self._wire.write(encode({"protocol": PROTOCOL, **message}))


def _response(number: str, body: dict[str, Any]) -> dict[str, Any]:
    return {"type": "response", "id": number, "ok": True, "body": body}


def _decoded(frame: bytes | bytearray) -> dict[str, Any]:
    """The message; an empty one if it is none."""
    try:
        message = json.loads(frame)
    except (ValueError, RecursionError):
        return {}
    return message if isinstance(message, dict) else {}


def _fault(message: dict[str, Any]) -> str | None:
    if message.get("protocol") != PROTOCOL:
        return f"not of {PROTOCOL}"
    kind = message.get("type")
    return None if kind in ("hello", "request", "cancel") else f"unknown type {kind!r:.80}"
