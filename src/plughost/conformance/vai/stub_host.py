"""A minimal vai host for conformance tests: it says hello, sends requests and records the frames."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from plughost.conformance.axis import require
from plughost.conformance.conversation import Conversation
from plughost.conformance.plugin_under_test import PluginUnderTest
from plughost.conformance.raw_process import RawProcess
from plughost.contracts.vai.manifest import PROTOCOL, Export
from plughost.permissions.access import Access
from plughost.permissions.parse import union

Frame = dict[str, Any]
UNKNOWN = {"added later": {"by": ["another", "version"]}}


class VaiStubHost(Conversation):
    """The stub host's conversation with one process."""

    def __init__(self, wire: RawProcess) -> None:
        super().__init__(wire)
        self._numbers = itertools.count(1)
        self._responses: dict[Any, Frame] = {}

    def send(self, type: str, **members: Any) -> None:
        """Sends a frame."""
        self.wire.send(frame(type, **members))

    async def hello(self) -> Frame:
        """Sends the host's hello and returns the plugin's."""
        self.send("hello", role="host", host={"name": "plughost-conform", "version": "1.0.0"}, **UNKNOWN)
        hello = await self.wire.message("its hello")
        require(hello.get("type") == "hello", f"it began with {hello.get('type')!r:.100}, not with its hello")
        return hello

    def request(self, op: str, body: Any) -> str:
        """Sends a request and returns its id."""
        id = f"req_{next(self._numbers)}"
        self.send("request", id=id, op=op, body=body, **UNKNOWN)
        return id

    async def ask(self, op: str, body: Any) -> Frame:
        """Sends a request and waits for its response."""
        return await self.response(self.request(op, body), op)

    async def response(self, id: str, what: str) -> Frame:
        """Waits for the response to a request id."""
        while id not in self._responses:
            self._take(await self.wire.message(f"the response to {what}"))
        return self._responses[id]

    def events(self, id: str) -> list[Frame]:
        """The events of a request so far."""
        return [
            each for each in self.transcript if each.get("type") == "event" and each.get("request_id") == id
        ]

    def _take(self, message: Frame) -> None:
        self._record(message, "frames")
        if message.get("type") == "response" and isinstance(message.get("id"), str):
            self._responses.setdefault(message["id"], message)


def frame(type: str, **members: Any) -> Frame:
    """A frame of the protocol."""
    return {"protocol": PROTOCOL, "type": type, **members}


@asynccontextmanager
async def open_stub(
    subject: PluginUnderTest,
    env: Mapping[str, str] | None = None,
    writable: tuple[str, ...] = (),
    scratch: str | None = None,
) -> AsyncIterator[VaiStubHost]:
    """Starts a new process and exchanges hello, whatever identity it claims. It may write to the folders
    `writable`, and to `scratch`, which is created for it."""
    spec = subject.spec
    allow = union(spec.allow, Access(write=writable))
    options = spec.options if scratch is None else {**spec.options, "scratch": scratch}
    async with subject.wire(env, msgspec.structs.replace(spec, allow=allow, options=options)) as wire:
        stub = VaiStubHost(wire)
        await stub.hello()
        yield stub


def body_of(export: Export, response: Frame) -> Frame:
    """The body of a response, which must be ok."""
    body = response.get("body")
    require(
        response.get("ok") is True and isinstance(body, dict),
        f"{export.id} is answered with {response.get('error')!r:.300}: only protocol errors are reported "
        "in that way",
    )
    return dict(body or {})
