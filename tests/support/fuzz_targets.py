"""Fuzz targets: bytes in, nothing but documented outcomes out. Each raises when an invariant breaks."""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from typing import Any

import msgspec

from plughost.contracts.ainb.contract import CONTRACT as AINB
from plughost.contracts.ainb.manifest import AinbAbout, AinbManifest
from plughost.contracts.ainb.messages import CliDispatchResult, RenderResult
from plughost.contracts.ainb.session import AinbSession
from plughost.contracts.jsonrpc import JsonRpcError, JsonRpcRefusal
from plughost.contracts.mcptest.session import McptestSession
from plughost.contracts.rune.session import RuneSession, RuneSettings
from plughost.contracts.vai.manifest import RuntimeSection, VaiManifest
from plughost.contracts.vai.messages import OPS, VaiAbout
from plughost.contracts.vai.results import outcome
from plughost.contracts.vai.session import VaiSession
from plughost.engine.session import Incoming, Session
from plughost.errors import CallFailed, Denied, InvalidSpec, Malformed, PluginError
from plughost.permissions.capability import Capability
from plughost.vai.packages.oci.digests import is_digest
from plughost.vai.packages.oci.errors import BadContent
from plughost.vai.packages.oci.layout.tar_headers import read_members
from plughost.vai.packages.oci.manifests import ImageManifest, read_index, read_manifest
from plughost.vai.packages.oci.registry.challenge import read_challenges
from plughost.wire.framing import HEAD, ContentLength, FrameError, Framing, Lines
from plughost.wire.messages import NOTHING, Notification, Progress, Request, Response, Unusable, decode

LIMIT = 64
VAI = VaiManifest(
    api_version="vai.plugin.v1",
    package_id="acme/puppet",
    version="1.0.0",
    name="Puppet",
    runtime=RuntimeSection(
        protocol="vai.rpc.v1", transport="stdio", entrypoint=["bin/p"], os=["linux"], arch=["amd64"]
    ),
    exports=[],
)


def framing(make: Callable[[], Framing], data: bytes) -> None:
    """Split in two, byte by byte and whole: the same frames, none over the limit, heads bounded."""
    expected = _frames(make(), [data])
    cut = data[0] * len(data) // 256 if data else 0
    assert _frames(make(), [data[:cut], data[cut:]]) == expected
    assert _frames(make(), [bytes([byte]) for byte in data]) == expected
    for frame in expected:
        if isinstance(frame, FrameError):
            assert len(frame.head) <= HEAD
        else:
            assert len(frame) <= LIMIT + 1


def _frames(decoder: Framing, pieces: list[bytes]) -> list[bytes | FrameError]:
    return [frame for piece in pieces if piece for frame in decoder.feed(piece)] + decoder.end()


def conversation(session: Session, data: bytes, look: Callable[[Incoming], None] | None = None) -> None:
    """Whatever a plugin says: an answer with one payload, a request, a typed error, or silence."""
    decoder = session.framing()
    for frame in decoder.feed(data) + decoder.end():
        try:
            incoming = (
                session.on_bad_frame(frame) if isinstance(frame, FrameError) else session.receive(frame)
            )
        except PluginError:
            return
        if isinstance(incoming, Response):
            assert (incoming.result is NOTHING) != (incoming.error is NOTHING)
            if incoming.error is not NOTHING:
                assert session.to_exception("m", incoming).error is not None
        elif isinstance(incoming, Malformed):
            assert len(incoming.head) <= 4096
        elif isinstance(incoming, Unusable):
            assert len(incoming.head) <= HEAD
        if look is not None:
            look(incoming)


def _mcptest(data: bytes) -> None:
    session = McptestSession(1 << 16)
    session.encode_call(1, "m", None, None)
    conversation(session, data)


def _rune(data: bytes) -> None:
    session = RuneSession("puppet", RuneSettings("rterm.plugin.v1"), frozenset({Capability("a")}))
    session.on_start("echo")
    session.encode_call(1, "echo", {}, None)
    request_id = session._request_id.encode()
    conversation(session, data.replace(b"$ID", request_id))


_HEADER = re.compile(rb"Content-Length: [0-9]+\r\n\r\n")


def _ainb(data: bytes, *, ready: bool) -> None:
    """As it stands; and with lengths that are right, so that a change reaches the message and not its frame."""
    bodies = [body for body in _HEADER.split(data) if body]
    for stream in (data, b"".join(b"Content-Length: %d\r\n\r\n%b" % (len(body), body) for body in bodies)):
        session = AinbSession(
            AinbManifest(AinbAbout("puppet", "1.2.3", 2)), "/p/manifest.toml", ("event_bus",)
        )
        session.on_start("m")
        session.encode_call(2, "m", {}, None)
        session.ready = ready
        conversation(session, stream, lambda incoming, session=session: _look(session, incoming))


def _look(session: AinbSession, incoming: Incoming) -> None:
    """What the host does with it next goes well, or fails in the ways it is prepared for."""
    if isinstance(incoming, Response):
        assert session.ready or incoming.id != 1
        if incoming.error is not NOTHING:
            passed_on = session.encode_error("x", session.to_exception("m", incoming))
            came = msgspec.json.decode(incoming.error, type=JsonRpcError)
            assert msgspec.json.decode(passed_on, type=JsonRpcRefusal) == JsonRpcRefusal("x", came)
            return
        for kind in (Any, RenderResult, CliDispatchResult):
            try:
                decode(incoming.result, kind=kind)
            except Malformed:
                pass
    elif isinstance(incoming, Request):
        refusals = (Denied("no"), InvalidSpec("no"), CallFailed("no", error={"code": 1.5}))
        replies = [
            session.encode_response(incoming.id, None),
            *(session.encode_error(incoming.id, error) for error in refusals),
        ]
        for reply in map(msgspec.json.decode, replies):
            assert reply["jsonrpc"] == "2.0"
            assert reply["id"] == incoming.id
            assert type(reply["id"]) is type(incoming.id)
            assert ("result" in reply) != ("error" in reply)
    if isinstance(incoming, Request | Notification):
        host_method = AINB.host_methods.get(incoming.method)
        try:
            msgspec.json.decode(incoming.params or b"{}", type=host_method.params if host_method else dict)
        except (ValueError, RecursionError):  # wrong params
            pass


def _vai(data: bytes, *, ready: bool) -> None:
    """As it stands; and with lengths that are right."""
    bodies = [body for body in _HEADER.split(data) if body]
    for stream in (data, b"".join(b"Content-Length: %d\r\n\r\n%b" % (len(body), body) for body in bodies)):
        session = VaiSession(VAI, VaiAbout("plughost", "1.0.0"))
        session.on_start("act")
        session.encode_call(1, "tool.invoke", {}, None)
        session.ready = ready
        conversation(session, stream, _look_at_vai)


def _look_at_vai(incoming: Incoming) -> None:
    if isinstance(incoming, Progress):
        assert incoming.id > 0
    if isinstance(incoming, Response) and incoming.error is NOTHING:
        for op in OPS.values():
            try:
                outcome(op, incoming.result)
            except Malformed:
                pass


def _oci(data: bytes) -> None:
    """A registry's documents: read with sound digests and sizes, or BadContent."""
    for read in (read_manifest, read_index):
        try:
            document = read(data)
        except BadContent:
            continue
        for blob in document.blobs if isinstance(document, ImageManifest) else document.manifests:
            assert is_digest(blob.digest)
            assert blob.size >= 0


def _oci_tar(data: bytes) -> None:
    """Files that lie within the archive, one after the other; or BadContent."""
    end = 0
    try:
        for member in read_members(io.BytesIO(data), "x.tar"):
            assert end < member.start <= member.start + member.size <= len(data)
            end = member.start + member.size
    except BadContent:
        pass


def _challenge(data: bytes) -> None:
    for challenge in read_challenges(data.decode("latin-1")):
        assert challenge.scheme == challenge.scheme.lower() != ""


TARGETS: dict[str, Callable[[bytes], None]] = {
    "lines": lambda data: framing(lambda: Lines(LIMIT), data),
    "content_length": lambda data: framing(lambda: ContentLength(LIMIT, header_limit=128), data),
    "mcptest": _mcptest,
    "rune": _rune,
    "ainb": lambda data: _ainb(data, ready=False),
    "vai": lambda data: _vai(data, ready=False),
    "vai_ready": lambda data: _vai(data, ready=True),
    "ainb_ready": lambda data: _ainb(data, ready=True),
    "oci": _oci,
    "oci_tar": _oci_tar,
    "challenge": _challenge,
}
