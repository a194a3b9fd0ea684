"""A tiny contract from outside the package: JSON-RPC both ways over Content-Length, with a handshake.

It uses nothing of plughost that any other outside contract could not use, and edits nothing of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from plughost import CallFailed, Denied, HandshakeFailed, PluginError, UnknownMethod
from plughost.contract import (
    ABSENT,
    NOTHING,
    BaseContract,
    BaseSession,
    Capability,
    ContentLength,
    Frame,
    HostMethod,
    Incoming,
    LifecyclePolicy,
    Notification,
    Permissions,
    PluginSpec,
    Request,
    ResolvedSpec,
    Response,
    Unusable,
    encode,
    read_options,
)

MAX_BODY = 16 << 20


class Message(msgspec.Struct):
    id: int | str | None = None
    method: str | None = None
    params: msgspec.Raw = NOTHING
    result: msgspec.Raw = NOTHING
    error: msgspec.Raw = NOTHING


class Parley(BaseSession):
    first_id = 2

    def __init__(self, greeting: str) -> None:
        self._greeting = greeting
        self.ready = False

    def framing(self) -> ContentLength:
        return ContentLength(MAX_BODY)

    def on_start(self, first: str | None) -> Sequence[bytes]:
        self.ready = False
        return (encode({"id": 1, "method": "hello", "params": {"greeting": self._greeting}}),)

    def on_ready(self) -> Sequence[bytes]:
        return (encode({"method": "welcome"}),)

    def receive(self, frame: Frame) -> Incoming:
        try:
            message = msgspec.json.decode(frame, type=Message)
        except (ValueError, RecursionError) as error:
            return Unusable(str(error), bytes(frame[:256]))
        if message.method is not None:
            if message.id is None:
                return Notification(message.method, message.params)
            return Request(message.id, message.method, message.params)
        if message.id == 1 and not self.ready:
            if message.error is not NOTHING:
                raise HandshakeFailed("it does not want to talk")
            self.ready = True
            return None
        if not isinstance(message.id, int):
            return Unusable("an answer without a numeric id", bytes(frame[:256]))
        return Response(message.id, message.result, message.error)

    def encode_call(self, number: int, method: str, params: Any, context: Mapping[str, str] | None) -> bytes:
        return encode({"id": number, "method": method, "params": {} if params is ABSENT else params})

    def encode_notification(self, method: str, params: Any) -> bytes:
        return encode({"method": method, "params": {} if params is ABSENT else params})

    def encode_response(self, number: int | str, result: Any) -> bytes:
        return encode({"id": number, "result": result})

    def encode_error(self, number: int | str, error: PluginError) -> bytes:
        codes: dict[type[PluginError], int] = {UnknownMethod: -32601, Denied: -32001}
        return encode(
            {"id": number, "error": {"code": codes.get(type(error), -32602), "message": error.message}}
        )

    def to_exception(self, method: str, answer: Response) -> CallFailed:
        return CallFailed(f"it answered {method!r} with an error", error=msgspec.json.decode(answer.error))

    def shutdown_request(self) -> tuple[str, Any] | None:
        return ("bye", {})


class Options(msgspec.Struct, frozen=True, kw_only=True):
    greeting: str = "hello"
    eager: bool = False
    respawn: bool = True
    idle_reap: float | None = None
    grace: float = 5.0
    term_grace: float = 0.0
    ready_timeout: float = 15.0
    max_reverse: int = 64
    max_buffered: int = 64 << 20
    max_in_flight: int = 1024
    max_waiting: int = 65536


class AddParams(msgspec.Struct):
    a: int
    b: int


class ParleyContract(BaseContract):
    name = "parley"
    options: type[msgspec.Struct] = Options
    host_methods: Mapping[str, HostMethod] = {
        "host/add": HostMethod("add", None, AddParams),
        "host/secret": HostMethod("secret", "secrets"),
        "host/slow": HostMethod("slow"),
        "host/missing": HostMethod("missing"),
    }

    def read_folder(self, folder: Path) -> PluginSpec | None:
        manifest = folder / "parley.json"
        if not manifest.exists():
            return None
        told = msgspec.json.decode(manifest.read_bytes())
        return PluginSpec(contract="parley", name=told["name"], command=told["command"], cwd=str(folder))

    def resolve(self, spec: PluginSpec) -> ResolvedSpec:
        options: Options = read_options(Options, spec)
        policy = LifecyclePolicy(
            eager=options.eager,
            respawn=options.respawn,
            idle_reap=options.idle_reap,
            grace=options.grace,
            term_grace=options.term_grace,
            ready_timeout=options.ready_timeout,
            max_reverse=options.max_reverse,
            max_buffered=options.max_buffered,
            max_in_flight=options.max_in_flight,
            max_waiting=options.max_waiting,
        )
        granted = frozenset(Capability(word) for word in spec.grants)
        return ResolvedSpec(policy, dict(spec.env), Permissions(granted), settings=options)

    def session(self, spec: PluginSpec, resolved: ResolvedSpec) -> Parley:
        return Parley(resolved.settings.greeting)


CONTRACT = ParleyContract()


class Client:
    """The typed client of a parley plugin."""

    def __init__(self, plugin: Any) -> None:
        self._plugin = plugin

    async def echo(self, **params: Any) -> dict[str, Any]:
        answer: dict[str, Any] = await self._plugin.call("echo", params)
        return answer
