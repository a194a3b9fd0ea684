"""A JSON-RPC test client for one raw process: it answers the plugin's requests while it waits for
responses."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

from plughost.conformance.axis import Failed, require
from plughost.conformance.conversation import Conversation, Message
from plughost.conformance.raw_process import RawProcess
from plughost.wire.framing import FrameTooLarge

Answers = Callable[[str, Any], Message]
"""The host's answers, by method and params: `{"result": …}` or `{"error": …}`."""


def error(code: int, message: str) -> Message:
    """A JSON-RPC error answer."""
    return {"error": {"code": code, "message": message}}


def params_of(message: Message) -> Message:
    """The params of a message; an empty object when they are not an object."""
    params = message.get("params")
    return params if isinstance(params, dict) else {}


class JsonRpcClient(Conversation):
    """The host's side of a JSON-RPC conversation."""

    def __init__(self, wire: RawProcess, answers: Answers) -> None:
        super().__init__(wire)
        self._answers = answers
        self._numbers = itertools.count(1)
        self._responses: dict[Any, Message] = {}
        self.incoming: list[Message] = []
        """The plugin's requests and notifications, in order."""

    def unsolicited(self) -> list[Message]:
        """Responses that match no request."""
        return [*self._responses.values()]

    def received(self, method: str) -> list[Message]:
        """The plugin's requests and notifications of a method."""
        return [message for message in self.incoming if message["method"] == method]

    async def ask(self, method: str, params: Any) -> Message:
        """Sends a request and waits for its response."""
        return await self.response(self.request(method, params), method)

    def request(self, method: str, params: Any, number: int | None = None) -> int:
        """Sends a request and returns its id."""
        number = next(self._numbers) if number is None else number
        self.wire.send({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
        return number

    async def response(self, number: int, method: str) -> Message:
        """Waits for the response to a request id."""
        while number not in self._responses:
            self._take(await self.wire.message(f"the response to {method}"))
        return self._responses.pop(number)

    def notify(self, method: str, params: Any) -> None:
        """Sends a notification."""
        self.wire.send({"jsonrpc": "2.0", "method": method, "params": params})

    def _take(self, message: Message) -> None:
        number: Any = message.get("id")
        method = message.get("method", "")
        require(
            isinstance(number, int | str | None),
            f"it sent the id {number!r:.100}, which is neither an integer nor a string",
        )
        require(isinstance(method, str), f"it sent the method {method!r:.100}, which is not a string")
        self._record(message)
        if "method" not in message:
            self._responses[number] = message
            return
        self.incoming.append(message)
        if number is not None:
            self._answer(number, method, message.get("params"))

    def _answer(self, number: int | str, method: str, params: Any) -> None:
        try:
            self.wire.send({"jsonrpc": "2.0", "id": number, **self._answers(method, params)})
        except FrameTooLarge as error:
            raise Failed(f"the answer to its {method!r:.100} cannot be sent: {error}") from None
