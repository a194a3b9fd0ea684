"""The rune session: one handshake, one request, one response. Any violation ends it."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from plughost._util.text import MAX_VALUE, bounded
from plughost.contracts.rune.errors import (
    CapabilityNotAllowed,
    CapabilityNotDeclared,
    ExecutionError,
    MalformedResponse,
    ProtocolVersionMismatch,
    ToolNotExposed,
)
from plughost.contracts.rune.messages import (
    ExecuteRequest,
    ExecuteResponse,
    HandshakeRequest,
    HandshakeResponse,
    RuneAnswer,
    RuneContext,
    RuneError,
    RuneManifest,
)
from plughost.engine.session import BaseSession, Incoming
from plughost.errors import CallFailed, HandshakeFailed, InvalidSpec, Malformed, PluginError
from plughost.permissions.capabilities import ungranted
from plughost.permissions.capability import Capability
from plughost.wire.framing import HEAD, Frame, FrameError, Lines
from plughost.wire.messages import ABSENT, NOTHING, Response, encode, is_utf8
from plughost.wire.method_description import MAX_METHODS, MethodDescription
from plughost.wire.surrogates import Decoder, decode_replacing

MAX_LINE = 1 << 20
MAX_HINT = 1000
"""Characters of the names of tools in a hint."""

T = TypeVar("T")

_handshakes = msgspec.json.Decoder(HandshakeResponse)
_responses = msgspec.json.Decoder(ExecuteResponse)


class RuneSettings(msgspec.Struct, frozen=True):
    """The resolved settings that a rune session needs."""

    protocol: str
    max_request: int = MAX_LINE


class RuneSession(BaseSession):
    """The host's side of the protocol: checks the handshake, sends one request and checks the response."""

    errors: Mapping[type[PluginError], type[PluginError]] = {Malformed: MalformedResponse}

    def __init__(self, name: str, settings: RuneSettings, granted: frozenset[Capability]) -> None:
        self._name = name
        self._protocol = settings.protocol
        self._max_request = settings.max_request
        self._granted = granted
        self._tool = ""
        self._number = 0
        self._request_id = ""
        self.ready = False

    def framing(self) -> Lines:
        return Lines(MAX_LINE, send_limit=self._max_request)

    def on_start(self, first: str | None) -> Sequence[bytes]:
        self._tool = first or ""
        return (encode(HandshakeRequest(self._protocol)),)

    def encode_call(self, number: int, method: str, params: Any, context: Mapping[str, str] | None) -> bytes:
        if not method.strip():
            raise InvalidSpec("the tool's name is blank")
        try:
            origin = msgspec.convert(dict(context or {}), RuneContext)
        except msgspec.ValidationError as error:
            known = ", ".join(RuneContext.__struct_fields__)
            raise InvalidSpec(f"the context is wrong: {error}; known members: {known}") from error
        self._number = number
        self._request_id = f"plugin_req_{secrets.token_hex(8)}"
        return encode(ExecuteRequest(self._request_id, method, origin, {} if params is ABSENT else params))

    def receive(self, frame: Frame) -> Incoming:
        if self.ready:
            return self._answer(_decode(_responses, frame), frame)
        self._check(_decode(_handshakes, frame))
        self.ready = True
        return None

    def on_bad_frame(self, error: FrameError) -> Incoming:
        raise MalformedResponse(error.message, head=error.head)

    # The order of these checks is part of the contract: the first failure wins.

    def _check(self, handshake: HandshakeResponse) -> None:
        if handshake.type != "handshake":
            raise HandshakeFailed(f"its first line is of type {handshake.type!r}, not 'handshake'")
        manifest = handshake.manifest
        if manifest is None:
            raise HandshakeFailed("its handshake has no manifest")
        self._check_identity(manifest)
        self.described = tuple(
            MethodDescription(name=tool, kind="tool") for tool in (manifest.exposed_tools or ())[:MAX_METHODS]
        )
        if self._tool not in (manifest.exposed_tools or ()):
            raise ToolNotExposed(
                f"it does not expose {self._tool!r}",
                hint=f"it exposes: {bounded(', '.join(manifest.exposed_tools or ()), MAX_HINT)}",
            )
        self._check_capabilities(manifest.capabilities or [])

    def _check_identity(self, manifest: RuneManifest) -> None:
        version = (manifest.protocol_version or "").strip()
        if version != self._protocol:
            raise ProtocolVersionMismatch(
                f"it speaks protocol version {version!r}, the host {self._protocol!r}"
            )
        if not (manifest.plugin_id or "").strip():
            raise HandshakeFailed("its manifest has no plugin_id")
        if not (manifest.plugin_version or "").strip():
            raise HandshakeFailed("its manifest has no plugin_version")
        if not manifest.exposed_tools:
            raise HandshakeFailed("its manifest exposes no tools")
        if manifest.plugin_id != self._name:
            raise HandshakeFailed(
                f"it calls itself {manifest.plugin_id!r}, but is configured as {self._name!r}",
                hint="plugin_id in its handshake must be its name in plughost.toml (or --name)",
            )

    def _check_capabilities(self, declared: list[str]) -> None:
        if self._granted and not declared:
            raise CapabilityNotDeclared("capabilities are granted to it, but it declares none")
        for place, word in enumerate(declared):
            if not word or word != word.strip() or word in declared[:place]:
                raise CapabilityNotDeclared(
                    f"its capability {word!r} is empty, has spaces around it, or is listed twice"
                )
            if ungranted([Capability(word)], self._granted):
                raise CapabilityNotAllowed(
                    f"it asks for {word!r}, which is not granted",
                    hint=f"grant it if the plugin should have it: --grant {word}",
                )

    def _answer(self, response: ExecuteResponse, frame: Frame) -> RuneAnswer:
        if response.type != "response":
            raise _malformed(f"its answer is of type {response.type!r}, not 'response'", frame)
        if response.request_id != self._request_id:
            raise _malformed(f"it answered request {response.request_id!r}, not {self._request_id!r}", frame)
        if response.status == "error":
            return self._failed(response.error, frame)
        if response.status != "ok":
            raise _malformed(f"its answer has the status {response.status!r}", frame)
        if response.error is not None:
            raise _malformed("its answer is ok and has an error", frame)
        output = response.output
        if output is NOTHING or bytes(output) == b"null":
            output = msgspec.Raw(b"{}")
        return RuneAnswer(self._number, result=output, metadata=response.metadata)

    def _failed(self, error: RuneError | None, frame: Frame) -> RuneAnswer:
        if error is None or not (error.message or "").strip():
            raise _malformed("its answer is an error without a message", frame)
        error_object = {"code": error.code or "", "message": error.message}
        return RuneAnswer(self._number, error=msgspec.Raw(encode(error_object)))

    def to_exception(self, method: str, answer: Response) -> CallFailed:
        error = msgspec.json.decode(answer.error)
        code = f" {bounded(error['code'], MAX_VALUE)}" if error["code"] else ""
        message = f"it answered {method!r} with error{code}: {bounded(error['message'])}"
        return ExecutionError(message, error=error)


def _malformed(message: str, frame: Frame) -> PluginError:
    return MalformedResponse(message, head=bytes(frame[:HEAD]))


def _decode(decoder: Decoder[T], frame: Frame) -> T:
    try:
        message = decode_replacing(decoder, frame)
    except (ValueError, RecursionError) as error:  # a bad string is a UnicodeDecodeError
        what = f"line to stdout that is not a message of this protocol: {error}"
        what = what if frame.strip() else "blank line to stdout"
        raise MalformedResponse(f"it wrote a {what}", head=bytes(frame[:HEAD])) from error
    if not is_utf8(frame):
        raise MalformedResponse("it wrote a line to stdout that is not valid UTF-8", head=bytes(frame[:HEAD]))
    return message
