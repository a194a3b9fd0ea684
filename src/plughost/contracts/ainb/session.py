"""The ainb conversation: JSON-RPC both ways, `plugin/init` first. What is no message is dropped."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from plughost.base.errors import (
    CallFailed,
    Denied,
    HandshakeFailed,
    InvalidSpec,
    PluginError,
    Timeout,
    UnknownMethod,
)
from plughost.contracts.ainb.manifest import ABI_VERSION, Manifest
from plughost.contracts.ainb.messages import (
    Envelope,
    ErrorObject,
    HandleEventParams,
    InitParams,
    InitResult,
    Notification,
    Refusal,
    Reply,
    Request,
)
from plughost.runtime.session import Conversation, Incoming
from plughost.wire import envelope
from plughost.wire.envelope import ABSENT, NOTHING, Answer, Noise, encode, is_utf8
from plughost.wire.framing import HEAD, ContentLength, Frame

MAX_BODY = 16 << 20
MAX_HEADER = 8 << 10
INIT = 1
"""The id of plugin/init."""

METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
CAPABILITY_DENIED = -32001
ACTION_TIMEOUT = -32002
MANIFEST_VALIDATION = -32003

_CODES: dict[type[PluginError], int] = {
    UnknownMethod: METHOD_NOT_FOUND,
    InvalidSpec: INVALID_PARAMS,
    Denied: CAPABILITY_DENIED,
    Timeout: ACTION_TIMEOUT,
}
_NULL = b"null"
_messages = msgspec.json.Decoder(Envelope)
_errors = msgspec.json.Decoder(ErrorObject)


class JsonRpc(Conversation):
    """What both sides have in common: either asks, tells and answers."""

    def framing(self) -> ContentLength:
        return ContentLength(MAX_BODY, header_limit=MAX_HEADER)

    def call(self, number: int, method: str, params: Any, context: Mapping[str, str] | None) -> bytes:
        return encode(Request(number, method, _object(params)))

    def notify(self, method: str, params: Any) -> bytes:
        return encode(Notification(method, _object(params)))

    def answer(self, number: int | str, result: Any) -> bytes:
        return encode(Reply(number, {} if result is None else result))

    def refuse(self, number: int | str, error: PluginError) -> bytes:
        return encode(Refusal(number, _error_object(error)))

    def receive(self, frame: Frame) -> Incoming:
        try:
            message = _messages.decode(frame)
        except (ValueError, RecursionError) as error:
            return Noise(f"not JSON-RPC: {error}", bytes(frame[:HEAD]))
        if message.jsonrpc != "2.0" or not is_utf8(frame):
            return Noise("not JSON-RPC 2.0", bytes(frame[:HEAD]))
        if message.method is not None:
            if message.id is None:
                return envelope.Notification(message.method, message.params)
            return envelope.Request(message.id, message.method, message.params)
        if not isinstance(message.id, int):
            return Noise("an answer without a number", bytes(frame[:HEAD]))
        if message.error is not NOTHING and bytes(message.error) != _NULL:
            try:
                _errors.decode(message.error)
            except (ValueError, RecursionError) as problem:
                return Noise(f"an answer with a malformed error: {problem}", bytes(frame[:HEAD]))
            return Answer(message.id, error=message.error)
        return Answer(message.id, msgspec.Raw(_NULL) if message.result is NOTHING else message.result)

    def failure(self, method: str, answer: Answer) -> CallFailed:
        error = _errors.decode(answer.error)
        told = f"it answered {method!r} with error {error.code}: {error.message}"
        return CallFailed(told, error=msgspec.to_builtins(error))


class PluginSide(JsonRpc):
    """The other role: for canaries, fake plugins, and whoever plays one without a process."""

    def init_result(self, manifest: Manifest) -> InitResult:
        """The whole answer to plugin/init."""
        about = manifest.plugin
        return InitResult(about.name, about.version, about.abi_version, manifest)


class AinbSession(JsonRpc):
    first_id = INIT + 1

    def __init__(self, manifest: Manifest, manifest_path: str, granted: Sequence[str]) -> None:
        self._manifest = manifest
        self._init = InitParams(manifest_path, list(granted), ABI_VERSION)
        self.ready = False

    def begin(self, first: str | None) -> Sequence[bytes]:
        self.ready = False
        self.lints = ()
        return (encode(Request(INIT, "plugin/init", self._init)),)

    def event(self, topic: str, payload: bytes) -> bytes:
        return encode(Notification("plugin/handle_event", HandleEventParams(topic, payload)))

    def farewell(self) -> tuple[str, Any] | None:
        return ("plugin/shutdown", {})

    def receive(self, frame: Frame) -> Incoming:
        incoming = super().receive(frame)
        if self.ready or not isinstance(incoming, Answer) or incoming.id != INIT:
            return incoming
        if incoming.error is not NOTHING:
            error = _errors.decode(incoming.error)
            raise HandshakeFailed(f"it refused plugin/init: {error.code} {error.message}")
        self._check(incoming.result)
        self.ready = True
        return None

    def _check(self, result: msgspec.Raw) -> None:
        """The plugin is who the manifest on disk says it is."""
        try:
            said = msgspec.json.decode(result, type=InitResult)
        except (ValueError, RecursionError) as error:
            raise HandshakeFailed(f"its answer to plugin/init is wrong: {error}") from error
        about = self._manifest.plugin
        for what, wanted, told in (
            ("name", about.name, said.name),
            ("version", about.version, said.version),
            ("abi_version", about.abi_version, said.abi_version),
            *(
                (section, getattr(self._manifest, section), getattr(said.manifest, section, None))
                for section in Manifest.__struct_fields__
            ),
        ):
            if told is not None and told != wanted:
                raise HandshakeFailed(
                    f"its {what} is {told!r:.300} by its own word and {wanted!r:.300} by its manifest",
                    hint="build it anew, or mend manifest.toml",
                )
        if said.manifest is None and not (said.name and said.version):
            raise HandshakeFailed("its answer to plugin/init does not say its name and its version")
        if said.manifest is None or said.abi_version is None:
            self.lints = ("its answer to plugin/init lacks manifest or abi_version",)


def _object(params: Any) -> Any:
    """Never null: real plugins cannot read that."""
    return {} if params is ABSENT or params is None else params


def _error_object(error: PluginError) -> ErrorObject:
    if isinstance(error, CallFailed):  # another plugin's own words, passed on
        try:
            return msgspec.convert(error.error, ErrorObject)
        except msgspec.ValidationError:
            return ErrorObject(INTERNAL_ERROR, error.message)
    code = next((code for kind, code in _CODES.items() if isinstance(error, kind)), INTERNAL_ERROR)
    return ErrorObject(code, error.message)
