"""The least host that a plugin must get along with: it answers what it is asked, mostly with a refusal."""

from __future__ import annotations

import asyncio
import itertools
import tempfile
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from plughost.conformance.axis import Failed, demand
from plughost.conformance.subject import Subject
from plughost.conformance.wire import Wire
from plughost.contracts.ainb.manifest import ABI_VERSION, Manifest
from plughost.contracts.jsonrpc import CAPABILITY_DENIED, METHOD_NOT_FOUND

NO_SUCH_METHOD = "cts/definitely_not_a_method"
LONGEST_TALK = 2.0
"""Seconds for a plugin that never falls silent."""

Message = dict[str, Any]
Answers = Callable[[str, Any], Message]
"""What the host answers, by method and params: `{"result": …}` or `{"error": …}`."""


def error(code: int, message: str) -> Message:
    return {"error": {"code": code, "message": message}}


def bare(method: str, params: Any) -> Message:
    """There is a bus, and nothing on it; all else is refused."""
    if method == "host/snapshot/get":
        return {"result": {"payload": None, "version": 0}}
    if method == "host/snapshot/subscribe":
        return {"result": {}}
    kind = method.removeprefix("host/").partition("/")[0]
    if kind in ("fs", "network", "action"):
        return error(CAPABILITY_DENIED, f"capability denied: {kind}")
    return error(METHOD_NOT_FOUND, f"method not found: {method}")


class Stub:
    """A conversation with one process. What the plugin asks is answered while something else is awaited."""

    def __init__(self, subject: Subject, wire: Wire, answers: Answers, home: str) -> None:
        self.home = home
        """Its AINB_HOME."""
        self._subject = subject
        self._answers = answers
        self._numbers = itertools.count(1)
        self._responses: dict[Any, Message] = {}
        self.wire = wire
        self.heard: list[Message] = []
        """What the plugin asked and told, in its order."""
        self.said: list[Message] = []
        """Everything that came from it."""

    def unasked(self) -> list[Message]:
        """Responses to nothing that was asked."""
        return [*self._responses.values()]

    def told(self, method: str) -> list[Message]:
        return [message for message in self.heard if message["method"] == method]

    def topics(self) -> list[str]:
        """What it is subscribed to, by its manifest and by its own request."""
        asked = (params_of(message).get("topic") for message in self.told("host/snapshot/subscribe"))
        wanted = [*self._subject.binding.topics, *(topic for topic in asked if isinstance(topic, str))]
        return list(dict.fromkeys(wanted))

    def init_params(self, granted: Sequence[str] | None = None, **more: Any) -> Message:
        settings = self._subject.binding.settings
        names = settings.granted if granted is None else granted
        return {
            "manifest_path": settings.path,
            "granted_capabilities": list(names),
            "abi_version": ABI_VERSION,
            **more,
        }

    async def init(self, granted: Sequence[str] | None = None, **more: Any) -> Message:
        """Its answer to plugin/init, which must be a result."""
        response = await self.ask("plugin/init", self.init_params(granted, **more))
        demand("result" in response, f"it answered plugin/init with the error {response.get('error')}")
        result = response["result"]
        demand(isinstance(result, dict), "its answer to plugin/init is no object")
        return dict(result)

    async def ask(self, method: str, params: Any) -> Message:
        """The response to a request."""
        return await self.response(self.request(method, params), method)

    def request(self, method: str, params: Any, number: int | None = None) -> int:
        number = next(self._numbers) if number is None else number
        self.wire.send({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
        return number

    async def response(self, number: int, method: str) -> Message:
        while number not in self._responses:
            self._take(await self.wire.message(f"the response to {method}"))
        return self._responses.pop(number)

    def tell(self, method: str, params: Any) -> None:
        self.wire.send({"jsonrpc": "2.0", "method": method, "params": params})

    async def drain(self) -> None:
        """Hear it out."""
        try:
            async with asyncio.timeout(LONGEST_TALK):
                while (message := await self.wire.message_soon()) is not None:
                    self._take(message)
        except TimeoutError:
            return

    def _take(self, message: Message) -> None:
        self.said.append(message)
        if "method" not in message:
            self._responses[message.get("id")] = message
            return
        self.heard.append(message)
        if message.get("id") is not None:
            answer = self._answers(message["method"], message.get("params"))
            self.wire.send({"jsonrpc": "2.0", "id": message["id"], **answer})


@asynccontextmanager
async def stubbed(subject: Subject, answers: Answers = bare) -> AsyncIterator[Stub]:
    """A new process with nothing said yet, and a home of its own: no axis finds what another left behind."""
    with tempfile.TemporaryDirectory(prefix="plughost-conform-") as home:
        async with subject.wire({"AINB_HOME": home}) as wire:
            yield Stub(subject, wire, answers, home)


def manifest_of(subject: Subject) -> Manifest:
    told: Manifest = subject.binding.settings.manifest
    return told


def params_of(message: Message) -> Message:
    params = message.get("params")
    return params if isinstance(params, dict) else {}


def read(value: Any, kind: type[Any], what: str) -> Any:
    """A result as the contract wants it."""
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as problem:
        raise Failed(f"{what} is wrong: {problem}") from None
