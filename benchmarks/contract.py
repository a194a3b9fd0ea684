"""A contract for the benchmark: mcptest's messages behind Content-Length headers, and notifications.

It is handed to `Plugin` directly: only installed packages can register one by entry point.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from plughost import CallFailed, Host, Malformed, Plugin, PluginSpec
from plughost.contracts.base import BaseContract, ResolvedSpec
from plughost.contracts.resolve import from_host
from plughost.engine.launcher.launch import Launch
from plughost.engine.policy import LifecyclePolicy
from plughost.engine.session import BaseSession, Incoming
from plughost.sandbox.plan import unconfined
from plughost.wire.framing import ContentLength, Frame
from plughost.wire.messages import ABSENT, NOTHING, Notification, Response, encode, is_utf8

MAX_BODY = 32 << 20


class Request(msgspec.Struct, omit_defaults=True):
    method: str
    id: int
    params: Any = ABSENT


class Message(Response):
    """Whatever the plugin says: an answer, or with a method a notification."""

    id: int = 0
    method: str = ""
    params: msgspec.Raw = NOTHING


_messages = msgspec.json.Decoder(Message)


class HeaderedSession(BaseSession):
    def framing(self) -> ContentLength:
        return ContentLength(MAX_BODY)

    def encode_call(self, number: int, method: str, params: Any, context: Mapping[str, str] | None) -> bytes:
        return encode(Request(method, number, params))

    def receive(self, frame: Frame) -> Incoming:
        try:
            message = _messages.decode(frame)
        except msgspec.DecodeError as error:
            return Malformed(f"no message: {error}", head=bytes(frame[:256]))
        if not is_utf8(frame):
            return Malformed("not valid UTF-8", head=bytes(frame[:256]))
        return Notification(message.method, message.params) if message.method else message

    def to_exception(self, method: str, answer: Response) -> CallFailed:
        return CallFailed(f"it answered {method!r} with an error", error=msgspec.json.decode(answer.error))


class NoOptions(msgspec.Struct):
    pass


class HeaderedContract(BaseContract):
    name = "headered"
    options: type[msgspec.Struct] = NoOptions

    def resolve(self, spec: PluginSpec) -> ResolvedSpec:
        return ResolvedSpec(LifecyclePolicy(max_in_flight=256), from_host("PATH"))

    def session(self, spec: PluginSpec, resolved: ResolvedSpec) -> HeaderedSession:
        return HeaderedSession()


def headered_plugin(host: Host, name: str, command: tuple[str, ...]) -> Plugin:
    """A plugin of this contract. The host does not know it: who asks for it stops it."""
    contract = HeaderedContract()
    spec = PluginSpec(contract=contract.name, name=name, command=command)
    resolved = contract.resolve(spec)
    how = unconfined(Launch(command, resolved.env), resolved.permissions.own)
    return Plugin(host.context, spec, contract, resolved, how)
