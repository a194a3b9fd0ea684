"""The ainb session: JSON-RPC in both directions, `plugin/init` first. Invalid messages are dropped."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from plughost.contracts.ainb.manifest import ABI_VERSION, AinbManifest
from plughost.contracts.ainb.messages import HandleEventParams, InitParams, InitResult
from plughost.contracts.jsonrpc import JsonRpc, JsonRpcNotification, JsonRpcRequest, error_decoder
from plughost.engine.session import Incoming
from plughost.errors import HandshakeFailed
from plughost.wire.framing import ContentLength, Frame
from plughost.wire.messages import NOTHING, Response, encode

MAX_BODY = 16 << 20
MAX_HEADER = 8 << 10
INIT = 1
"""The request id of plugin/init."""

MANIFEST_VALIDATION = -32003


class Framed(JsonRpc):
    """A JSON-RPC session with Content-Length framing."""

    def framing(self) -> ContentLength:
        return ContentLength(MAX_BODY, header_limit=MAX_HEADER)


class AinbPluginSide(Framed):
    """The plugin's side of the protocol: for canaries, fake plugins and tests without a process."""

    def init_result(self, manifest: AinbManifest) -> InitResult:
        """The complete result of plugin/init."""
        about = manifest.plugin
        return InitResult(about.name, about.version, about.abi_version, manifest)


class AinbSession(Framed):
    """The host's side of the protocol: sends `plugin/init` and checks the plugin's identity in its answer."""

    first_id = INIT + 1

    def __init__(self, manifest: AinbManifest, manifest_path: str, granted: Sequence[str]) -> None:
        self._manifest = manifest
        self._init = InitParams(manifest_path, list(granted), ABI_VERSION)
        self.ready = False

    def on_start(self, first: str | None) -> Sequence[bytes]:
        self.ready = False
        self.lints = ()
        return (encode(JsonRpcRequest(INIT, "plugin/init", self._init)),)

    def encode_publication(self, topic: str, payload: bytes) -> bytes:
        return encode(JsonRpcNotification("plugin/handle_event", HandleEventParams(topic, payload)))

    def shutdown_request(self) -> tuple[str, Any] | None:
        return ("plugin/shutdown", {})

    def receive(self, frame: Frame) -> Incoming:
        incoming = super().receive(frame)
        if self.ready or not isinstance(incoming, Response) or incoming.id != INIT:
            return incoming
        if incoming.error is not NOTHING:
            error = error_decoder.decode(incoming.error)
            raise HandshakeFailed(f"it refused plugin/init: {error.code} {error.message}")
        self._check(incoming.result)
        self.ready = True
        return None

    def _check(self, result: msgspec.Raw) -> None:
        """Checks that the answer to plugin/init agrees with the manifest on disk."""
        try:
            init_result = msgspec.json.decode(result, type=InitResult)
        except (ValueError, RecursionError) as error:
            raise HandshakeFailed(f"its answer to plugin/init is wrong: {error}") from error
        about = self._manifest.plugin
        for field, declared, reported in (
            ("name", about.name, init_result.name),
            ("version", about.version, init_result.version),
            ("abi_version", about.abi_version, init_result.abi_version),
            *(
                (section, getattr(self._manifest, section), getattr(init_result.manifest, section, None))
                for section in AinbManifest.__struct_fields__
            ),
        ):
            if reported is not None and reported != declared:
                raise HandshakeFailed(
                    f"its {field} is {reported!r:.300} in its answer to plugin/init, but "
                    f"{declared!r:.300} in its manifest",
                    hint="rebuild the program, or correct manifest.toml",
                )
        if init_result.manifest is None and not (init_result.name and init_result.version):
            raise HandshakeFailed("its answer to plugin/init lacks its name or its version")
        if init_result.manifest is None or init_result.abi_version is None:
            self.lints = ("its answer to plugin/init lacks manifest or abi_version",)
