"""JSON-RPC both ways on one wire, without a thread of its own and without an event loop.

Whoever waits for something reads the wire; what else comes meanwhile is kept and handled afterwards, in its
order. So a handler may call the host from anywhere, also from other threads, and nothing deadlocks: one
thread reads at a time, for all who wait, and when it has what it wanted the next one goes on.
"""

from __future__ import annotations

import _thread
from collections import deque

from plughost_sdk.handlers import log, log_failure
from plughost_sdk.message import INTERNAL_ERROR, METHOD_NOT_FOUND, Error, NotJson, decode, encode
from plughost_sdk.wire import BrokenWire, TooLarge

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from plughost_sdk.wire import Wire


class Ended(Exception):
    """The host has gone; there is nobody to answer."""


class Peer:
    def __init__(self, wire: Wire) -> None:
        self._wire = wire
        self._writing = _thread.allocate_lock()
        self._kept: deque[dict[str, Any]] = deque()
        self._answers: dict[int, dict[str, Any] | None] = {}
        """By the number of a call: its answer, None before it is there."""
        self._last = 0
        self._guard = _thread.allocate_lock()
        self._being_read = False
        self._asleep: list[_thread.LockType] = []
        self._end: Exception | None = None

    def next(self) -> dict[str, Any] | None:
        """The next request or notification; None at the end."""
        try:
            self._read_until(lambda: bool(self._kept))
        except Ended:
            return None
        return self._kept.popleft()

    def kept(self, method: str) -> list[dict[str, Any]]:
        """The notifications of a method that wait to be handled, taken out of the order of all."""
        waiting = [self._kept.popleft() for _ in range(len(self._kept))]
        found = [message for message in waiting if message["method"] == method and "id" not in message]
        self._kept.extendleft(message for message in reversed(waiting) if message not in found)
        return found

    def call(self, method: str, params: dict[str, Any]) -> Any:
        """Ask the host; Error when it refuses."""
        return self.finish(self.start(method, params))

    def start(self, method: str, params: dict[str, Any]) -> int:
        """Ask the host; the answer is for `finish`, which must be called."""
        with self._guard:
            self._last += 1
            number = self._last
        self._answers[number] = None
        try:
            self._send({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
        except BaseException:
            del self._answers[number]
            raise
        return number

    def finish(self, number: int) -> Any:
        """The answer to what was asked; Error when the host refuses."""
        try:
            self._read_until(lambda: self._answers[number] is not None)
        finally:
            answer = self._answers.pop(number)
        assert answer is not None
        return _result(answer)

    def tell(self, method: str, params: dict[str, Any]) -> None:
        """Tell the host; nothing comes back."""
        self._send({"jsonrpc": "2.0", "method": method, "params": params})

    def answer(self, number: Any, result: Any) -> None:
        self._send({"jsonrpc": "2.0", "id": number, "result": result})

    def refuse(self, number: Any, error: Error) -> None:
        self._send({"jsonrpc": "2.0", "id": number, "error": error.to_wire()})

    def _send(self, message: dict[str, Any]) -> None:
        frame = encode(message)
        with self._writing:
            try:
                self._wire.write(frame)
            except BrokenPipeError:
                raise Ended("the host has closed the connection") from None

    def _read_until(self, there: Callable[[], bool]) -> None:
        """Read, or sleep while another thread reads, until something is there. At the end: the reason."""
        awake = _thread.allocate_lock()
        awake.acquire()
        while not there():
            with self._guard:
                mine = not self._being_read
                self._being_read = True
                if not mine:
                    self._asleep.append(awake)
            if not mine:
                awake.acquire()
                continue
            try:
                if self._end is None:
                    self._take()
            finally:
                with self._guard:
                    self._being_read = False
                    asleep, self._asleep = self._asleep, []
                for each in asleep:
                    each.release()
            if self._end is not None and not there():
                raise self._end

    def _take(self) -> None:
        """One frame: an answer for whoever waits for it, anything else to be handled."""
        try:
            frame = self._wire.read()
        except BrokenWire as error:
            self._end = error
            return
        if frame is None:
            self._end = Ended("the host has closed the connection")
            return
        try:
            message = decode(frame)
        except (ValueError, RecursionError):
            return  # no message: the contract drops it
        if not isinstance(message, dict):
            return
        if "method" in message:
            self._kept.append(message)
        elif isinstance(number := message.get("id"), int) and number in self._answers:
            self._answers[number] = message


def _result(answer: dict[str, Any]) -> Any:
    error = answer.get("error")
    if error is None:
        return answer.get("result")
    if not isinstance(error, dict) or type(error.get("code")) is not int:
        raise Error(INTERNAL_ERROR, f"the host's answer has an invalid error: {error!r:.200}")
    raise Error(error["code"], error.get("message", ""), error.get("data"))


def serve(peer: Peer, message: dict[str, Any], handle: Callable[[str, Any], Any]) -> None:
    """One request or notification: the handler's result or error goes back, if anybody waits for it."""
    number, method = message.get("id"), message["method"]
    try:
        result = handle(method, message.get("params"))
        if number is not None:
            peer.answer(number, result)
        return
    except Error as error:
        refusal = error
        if number is None and error.code != METHOD_NOT_FOUND:
            log(f"{method}: {error}")
    except (Ended, BrokenWire):
        raise
    except NotJson as error:
        log_failure()
        refusal = Error(INTERNAL_ERROR, f"{method} sent something that JSON cannot represent: {error}")
    except Exception as error:
        log_failure()
        refusal = Error(INTERNAL_ERROR, f"{type(error).__name__}: {error}")
    if number is not None:
        try:
            peer.refuse(number, refusal)
        except TooLarge as error:
            log(f"{method}: its error: {error}")
            peer.refuse(number, Error(refusal.code, f"its error cannot be sent: {error}"))
