"""The kaged conversation: JSON-RPC on lines, `initialize` first. What is no message is dropped."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from plughost.contracts.jsonrpc import (
    METHOD_NOT_FOUND,
    JsonRpc,
    JsonRpcNotification,
    JsonRpcRequest,
    as_object,
    errors,
)
from plughost.contracts.kaged import capabilities
from plughost.contracts.kaged.capabilities import HeldCapabilities
from plughost.contracts.kaged.manifest import API_VERSION, KagedManifest
from plughost.contracts.kaged.messages import InitializeParams, InitializeResult
from plughost.engine.session import BaseSession, Incoming
from plughost.errors import HandshakeFailed, InvalidSpec
from plughost.wire import messages
from plughost.wire.framing import HEAD, Frame, Lines
from plughost.wire.messages import NOTHING, Response, Unusable, encode

MAX_SENT = 4_000_000
MAX_TAKEN = 4 << 20
"""Bytes of a message without its line end: 4 MB is read both ways, so less is sent than is taken."""
INITIALIZE = 1
"""The id of initialize."""
CONTEXT = "_context"
PROBES = ("health.check", "ping")
"""How its health is asked; a plugin that knows neither lives as long as its process."""
SHOWN = 5
"""Names in a lint."""
LONGEST_WORD = 200
"""Characters of a capability in a hint."""


class KagedSession(JsonRpc):
    first_id = INITIALIZE + 1

    def __init__(self, manifest: KagedManifest, held: HeldCapabilities, params: InitializeParams) -> None:
        self._manifest = manifest
        self._held = held
        self._params = params
        self._notifications = frozenset(manifest.notifications)
        self._probe = 0
        self.ready = False

    def framing(self) -> Lines:
        return Lines(MAX_TAKEN, send_limit=MAX_SENT)

    def on_start(self, first: str | None) -> Sequence[bytes]:
        self.ready = False
        self.lints = ()
        self._probe = 0
        return (encode(JsonRpcRequest(INITIALIZE, "initialize", self._params)),)

    def on_ready(self) -> Sequence[bytes]:
        return (encode(JsonRpcNotification("initialized", {})),)

    def call(self, number: int, method: str, params: Any, context: Mapping[str, str] | None) -> bytes:
        params = as_object(params)
        return encode(JsonRpcRequest(number, method, params if context is None else _with(params, context)))

    def notify(self, method: str, params: Any) -> bytes:
        return BaseSession.notify(self, method, params)  # `initialized` is the only one

    def shutdown_request(self) -> tuple[str, Any] | None:
        return ("shutdown", {})

    def health_request(self) -> tuple[str, Any] | None:
        return (PROBES[self._probe], {}) if self._probe < len(PROBES) else None

    def on_health_response(self, answer: Response) -> None:
        if answer.error is not NOTHING and errors.decode(answer.error).code == METHOD_NOT_FOUND:
            self._probe += 1

    def receive(self, frame: Frame) -> Incoming:
        if not frame or frame.isspace():
            return None
        incoming = super().receive(frame)
        if isinstance(incoming, messages.Notification) and incoming.method not in self._notifications:
            return Unusable("a notification that its manifest does not declare", bytes(frame[:HEAD]))
        if self.ready or not isinstance(incoming, Response) or incoming.id != INITIALIZE:
            return incoming
        if incoming.error is not NOTHING:
            error = errors.decode(incoming.error)
            raise HandshakeFailed(f"it refused initialize: {error.code} {error.message}")
        self.lints = tuple(self._judge(incoming.result))
        self.ready = True
        return None

    def bare(self, number: int, frame: Frame) -> Incoming:
        return Unusable("an answer with neither result nor error", bytes(frame[:HEAD]))

    def _judge(self, result: msgspec.Raw) -> Iterable[str]:
        """Whether it is the plugin of the manifest and fits this host; what should be better."""
        try:
            said = msgspec.json.decode(result, type=InitializeResult)
        except (ValueError, RecursionError) as error:
            raise HandshakeFailed(f"its answer to initialize is wrong: {error}", final=True) from error
        manifest = self._manifest
        if said.api_version != API_VERSION:
            raise _refused("api_version", f"it speaks {said.api_version}, this host {API_VERSION}")
        if said.name != manifest.name:
            raise _refused("name", f"it says {said.name!r:.100}, its manifest {manifest.name!r}")
        if missing := manifest.required_methods - {*said.methods}:
            raise _refused("methods", f"it lacks {_some(missing)} of its manifest")
        for word in said.capabilities_used:
            if not self._may(word):
                raise _refused("capabilities_used", f"{word!r:.200} is not granted", hint=_granting(word))
        if said.version != manifest.version:
            yield f"its version is {said.version!r:.80} by its word, {manifest.version!r} by its manifest"
        if missing := manifest.all_methods - {*said.methods}:
            yield f"tools that its answer to initialize does not list as methods: {_some(missing)}"
        if further := {*said.methods} - manifest.all_methods:
            yield f"methods that its manifest does not declare are ignored: {_some(further)}"
        if further := {*said.notifications} - self._notifications:
            yield f"notifications that its manifest does not declare are dropped: {_some(further)}"

    def _may(self, word: str) -> bool:
        try:
            return self._held.covers(capabilities.parse(word))
        except ValueError:
            return False


def _with(params: Any, context: Mapping[str, str]) -> dict[str, Any]:
    """Params with their context among them; every other member stays as it was written."""
    try:
        members = msgspec.json.decode(encode(params), type=dict[str, msgspec.Raw])
    except msgspec.ValidationError:
        raise InvalidSpec("a call with a context needs an object as its params") from None
    if CONTEXT in members:
        raise InvalidSpec(f"its params have a {CONTEXT} already")
    return {**members, CONTEXT: dict(context)}


def _refused(field: str, why: str, hint: str = "mend it or its manifest") -> HandshakeFailed:
    told = f"its answer to initialize is refused for its {field}: {why}"
    return HandshakeFailed(told, hint=hint, final=True)


def _granting(word: str) -> str:
    """The words that give it, when they are words."""
    try:
        capabilities.parse(word)
    except ValueError:
        return "mend it: that is no capability"
    if len(word) > LONGEST_WORD or not word.isprintable():
        return "grant it, if the plugin should have it"
    as_toml = encode(word).decode()
    return f"if the plugin should have it, grants = [{as_toml}] or --grant {shlex.quote(word)}"


def _some(names: Iterable[str]) -> str:
    listed = sorted(names)
    more = f" and {len(listed) - SHOWN} more" if len(listed) > SHOWN else ""
    return ", ".join(f"{name!r:.100}" for name in listed[:SHOWN]) + more
