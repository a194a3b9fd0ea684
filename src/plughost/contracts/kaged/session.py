"""The kaged session: newline-delimited JSON-RPC, `initialize` first. Invalid messages are dropped."""

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
    error_decoder,
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
"""Maximum bytes of a received message, without its line end. Both sides read 4 MB, so MAX_SENT is below
this."""
INITIALIZE = 1
"""The request id of initialize."""
CONTEXT = "_context"
PROBES = ("health.check", "ping")
"""The health check methods, in the order tried; a plugin without either is healthy while its process runs."""
SHOWN = 5
"""The number of names listed in a lint."""
LONGEST_WORD = 200
"""The longest capability string, in characters, that a hint repeats."""


class KagedSession(JsonRpc):
    """The host's side of the protocol: handshake, calls with a context, health checks and shutdown."""

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

    def encode_call(self, number: int, method: str, params: Any, context: Mapping[str, str] | None) -> bytes:
        params = as_object(params)
        return encode(
            JsonRpcRequest(number, method, params if context is None else _with_context(params, context))
        )

    def encode_notification(self, method: str, params: Any) -> bytes:
        return BaseSession.encode_notification(self, method, params)  # raises: `initialized` is the only one

    def shutdown_request(self) -> tuple[str, Any] | None:
        return ("shutdown", {})

    def health_request(self) -> tuple[str, Any] | None:
        return (PROBES[self._probe], {}) if self._probe < len(PROBES) else None

    def on_health_response(self, answer: Response) -> None:
        if answer.error is not NOTHING and error_decoder.decode(answer.error).code == METHOD_NOT_FOUND:
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
            error = error_decoder.decode(incoming.error)
            raise HandshakeFailed(f"it refused initialize: {error.code} {error.message}")
        self.lints = tuple(self._check_answer(incoming.result))
        self.ready = True
        return None

    def bare(self, number: int, frame: Frame) -> Incoming:
        return Unusable("an answer with neither result nor error", bytes(frame[:HEAD]))

    def _check_answer(self, result: msgspec.Raw) -> Iterable[str]:
        """Checks that the answer to initialize fits the manifest and this host; yields lints."""
        try:
            answer = msgspec.json.decode(result, type=InitializeResult)
        except (ValueError, RecursionError) as error:
            raise HandshakeFailed(f"its answer to initialize is wrong: {error}", final=True) from error
        manifest = self._manifest
        if answer.api_version != API_VERSION:
            raise _handshake_error("api_version", f"it speaks {answer.api_version}, this host {API_VERSION}")
        if answer.name != manifest.name:
            raise _handshake_error(
                "name", f"it is {answer.name!r:.100}, but {manifest.name!r} in the manifest"
            )
        if missing := manifest.required_methods - {*answer.methods}:
            raise _handshake_error(
                "methods", f"it lacks {_first_names(missing)}, which the manifest declares"
            )
        for word in answer.capabilities_used:
            if not self._is_granted(word):
                raise _handshake_error(
                    "capabilities_used", f"{word!r:.200} is not granted", hint=_grant_hint(word)
                )
        if answer.version != manifest.version:
            yield (
                f"its version is {answer.version!r:.80} in its answer to initialize, but "
                f"{manifest.version!r} in its manifest"
            )
        if missing := manifest.all_methods - {*answer.methods}:
            yield f"tools that its answer to initialize does not list as methods: {_first_names(missing)}"
        if further := {*answer.methods} - manifest.all_methods:
            yield f"methods that its manifest does not declare are ignored: {_first_names(further)}"
        if further := {*answer.notifications} - self._notifications:
            yield f"notifications that its manifest does not declare are dropped: {_first_names(further)}"

    def _is_granted(self, word: str) -> bool:
        try:
            return self._held.covers(capabilities.parse(word))
        except ValueError:
            return False


def _with_context(params: Any, context: Mapping[str, str]) -> dict[str, Any]:
    """Adds the context to the params; every other member stays exactly as it was written."""
    try:
        members = msgspec.json.decode(encode(params), type=dict[str, msgspec.Raw])
    except msgspec.ValidationError:
        raise InvalidSpec("a call with a context needs an object as its params") from None
    if CONTEXT in members:
        raise InvalidSpec(f"the params already have a member {CONTEXT}")
    return {**members, CONTEXT: dict(context)}


def _handshake_error(field: str, why: str, hint: str = "fix the plugin or its manifest") -> HandshakeFailed:
    message = f"its answer to initialize is refused because of its {field}: {why}"
    return HandshakeFailed(message, hint=hint, final=True)


def _grant_hint(word: str) -> str:
    """A hint with the grant that allows a capability string, if the string is valid."""
    try:
        capabilities.parse(word)
    except ValueError:
        return "fix the plugin: that is not a capability"
    if len(word) > LONGEST_WORD or not word.isprintable():
        return "grant it, if the plugin should have it"
    as_toml = encode(word).decode()
    return f"if the plugin should have it, grants = [{as_toml}] or --grant {shlex.quote(word)}"


def _first_names(names: Iterable[str]) -> str:
    """The first names of a set, for a message."""
    listed = sorted(names)
    more = f" and {len(listed) - SHOWN} more" if len(listed) > SHOWN else ""
    return ", ".join(f"{name!r:.100}" for name in listed[:SHOWN]) + more
