"""The ainb conversation: JSON-RPC both ways, `plugin/init` first. What is no message is dropped."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from plughost.contracts.ainb.manifest import ABI_VERSION, AinbManifest
from plughost.contracts.ainb.messages import HandleEventParams, InitParams, InitResult
from plughost.contracts.jsonrpc import JsonRpc, JsonRpcNotification, JsonRpcRequest, errors
from plughost.engine.session import Incoming
from plughost.errors import HandshakeFailed
from plughost.wire.framing import ContentLength, Frame
from plughost.wire.messages import NOTHING, Response, encode

MAX_BODY = 16 << 20
MAX_HEADER = 8 << 10
INIT = 1
"""The id of plugin/init."""

MANIFEST_VALIDATION = -32003


class Framed(JsonRpc):
    def framing(self) -> ContentLength:
        return ContentLength(MAX_BODY, header_limit=MAX_HEADER)


class AinbPluginSide(Framed):
    """The other role: for canaries, fake plugins, and whoever plays one without a process."""

    def init_result(self, manifest: AinbManifest) -> InitResult:
        """The whole answer to plugin/init."""
        about = manifest.plugin
        return InitResult(about.name, about.version, about.abi_version, manifest)


class AinbSession(Framed):
    first_id = INIT + 1

    def __init__(self, manifest: AinbManifest, manifest_path: str, granted: Sequence[str]) -> None:
        self._manifest = manifest
        self._init = InitParams(manifest_path, list(granted), ABI_VERSION)
        self.ready = False

    def on_start(self, first: str | None) -> Sequence[bytes]:
        self.ready = False
        self.lints = ()
        return (encode(JsonRpcRequest(INIT, "plugin/init", self._init)),)

    def event(self, topic: str, payload: bytes) -> bytes:
        return encode(JsonRpcNotification("plugin/handle_event", HandleEventParams(topic, payload)))

    def shutdown_request(self) -> tuple[str, Any] | None:
        return ("plugin/shutdown", {})

    def receive(self, frame: Frame) -> Incoming:
        incoming = super().receive(frame)
        if self.ready or not isinstance(incoming, Response) or incoming.id != INIT:
            return incoming
        if incoming.error is not NOTHING:
            error = errors.decode(incoming.error)
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
                for section in AinbManifest.__struct_fields__
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
