"""JSON-RPC both ways on one wire, without threads and without an event loop.

Whoever asks the host something reads on until the answer is there; what else comes meanwhile is kept and
handled afterwards, in its order. So a handler may call the host from anywhere, and nothing deadlocks.
Other threads may call the host, too: the thread that runs the plugin reads for them.
"""

from __future__ import annotations

import _thread
import json
from collections import deque

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from plughost_sdk.wire import Wire

METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603


class Error(Exception):
    """An error as it goes over the wire: the plugin's own, or the host's answer to a call."""

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(f"{message} ({code})")
        self.code = code
        self.message = message
        self.data = data


class Ended(Exception):
    """The host has gone; there is nobody to answer."""


class _Waiter:
    def __init__(self) -> None:
        self.answer: dict[str, Any] | None = None
        self.done = _thread.allocate_lock()
        self.done.acquire()


class Peer:
    def __init__(self, wire: Wire) -> None:
        self._wire = wire
        self._reader = _thread.get_ident()
        self._writing = _thread.allocate_lock()
        self._kept: deque[dict[str, Any]] = deque()
        self._waiting: dict[int, _Waiter] = {}
        self._last = 0
        self._ended = False

    def next(self) -> dict[str, Any] | None:
        """The next request or notification; None at the end."""
        while not self._kept:
            if not self._take():
                return None
        return self._kept.popleft()

    def call(self, method: str, params: dict[str, Any]) -> Any:
        """Ask the host; Error when it refuses."""
        waiter = _Waiter()
        with self._writing:
            self._last += 1
            number = self._last
            self._waiting[number] = waiter
        try:
            self._send({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
            if _thread.get_ident() == self._reader:
                while waiter.answer is None:
                    if not self._take():
                        raise Ended("the host has gone")
            else:
                waiter.done.acquire()
        finally:
            self._waiting.pop(number, None)
        if waiter.answer is None:
            raise Ended("the host has gone")
        return _result(waiter.answer)

    def tell(self, method: str, params: dict[str, Any]) -> None:
        """Tell the host; nothing comes back."""
        self._send({"jsonrpc": "2.0", "method": method, "params": params})

    def answer(self, number: Any, result: Any) -> None:
        self._send({"jsonrpc": "2.0", "id": number, "result": result})

    def refuse(self, number: Any, error: Error) -> None:
        said: dict[str, Any] = {"code": error.code, "message": error.message}
        if error.data is not None:
            said["data"] = error.data
        self._send({"jsonrpc": "2.0", "id": number, "error": said})

    def _send(self, message: dict[str, Any]) -> None:
        frame = json.dumps(message, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
        with self._writing:
            self._wire.write(frame)

    def _take(self) -> bool:
        """One frame: an answer to whoever waits for it, anything else to be handled; False at the end."""
        frame = None if self._ended else self._wire.read()
        if frame is None:
            self._ended = True
            for waiter in [*self._waiting.values()]:
                waiter.done.release()
            return False
        try:
            message = json.loads(frame)
        except (ValueError, RecursionError):
            return True  # no message: the contract drops it
        if isinstance(message, dict):
            if "method" in message:
                self._kept.append(message)
            else:
                self._settle(message)
        return True

    def _settle(self, answer: dict[str, Any]) -> None:
        number = answer.get("id")
        waiter = self._waiting.pop(number, None) if isinstance(number, int) else None
        if waiter is not None:
            waiter.answer = answer
            waiter.done.release()


def _result(answer: dict[str, Any]) -> Any:
    error = answer.get("error")
    if error is None:
        return answer.get("result")
    raise Error(error.get("code", INTERNAL_ERROR), error.get("message", ""), error.get("data"))


def serve(peer: Peer, message: dict[str, Any], handle: Callable[[str, Any], Any]) -> None:
    """One request or notification: the handler's result or error goes back, if anybody waits for it."""
    from plughost_sdk.handlers import log_failure

    number = message.get("id")
    try:
        result = handle(message["method"], message.get("params"))
        if number is not None:
            peer.answer(number, result)
        return
    except Error as error:
        refusal = error
    except Ended:
        raise
    except Exception as error:
        log_failure()
        refusal = Error(INTERNAL_ERROR, f"{type(error).__name__}: {error}")
    if number is not None:
        peer.refuse(number, refusal)
