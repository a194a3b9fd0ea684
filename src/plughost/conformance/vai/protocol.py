"""The axes of the protocol: hello, frames, events, cancel and deadlines."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec

from plughost.conformance.axis import Axis, Failed, require
from plughost.conformance.plugin_under_test import PluginUnderTest
from plughost.conformance.raw_process import QUIET
from plughost.conformance.vai.requests import context, manifest_of, request
from plughost.conformance.vai.stub_host import Frame, VaiStubHost, frame, open_stub
from plughost.contracts.vai.errors import INVALID_FRAME
from plughost.contracts.vai.manifest import PROTOCOL

CANCEL_WITHIN = 5.0
LARGE = 1 << 20
UNKNOWN_OP = "conformance.nothing"
DEADLINES = ("2126-03-12T20:00:00.25Z", "2126-03-12T22:00:00+02:00", "2026-01-01T00:00:00Z")
"""With a fraction, with an offset, and long past."""


async def hello(subject: PluginUnderTest) -> None:
    """Checks the plugin's hello and its exit after shutdown."""
    package = manifest_of(subject)
    session = subject.contract.session(subject.spec, subject.resolved)
    session.on_start(None)
    async with subject.wire() as wire:
        stub = VaiStubHost(wire)
        await wire.silent("before the host's hello")
        hello_frame = await stub.hello()
        session.receive(msgspec.json.encode(hello_frame))  # checked as the host checks it
        await wire.silent("after its hello, without a request")
        stub.send("shutdown")
        wire.end_input()
        status = await wire.exit_status()
        require(status == 0, f"{package.package_id} ended with {status} after shutdown, not with 0")


async def frames(subject: PluginUnderTest) -> None:
    """Checks requests in pieces, joined, large and malformed."""
    async with open_stub(subject) as stub:
        await _refused(stub, "without a body", op="tool.invoke")
        await _refused(stub, "with an unknown op", op=UNKNOWN_OP, body={})
        export = manifest_of(subject).exports[0]
        op, body = request(subject, export)
        large = _framed("req_pieces", op, {**body, "padding": "ä" * LARGE})
        for piece in (large[:5], large[5:40], large[40:]):
            stub.wire.send_raw(piece)
            await asyncio.sleep(QUIET / 10)
        await stub.response("req_pieces", f"{export.id}, requested in pieces and with unknown members")
        stub.wire.send_raw(_framed("req_a", UNKNOWN_OP, {}) + _framed("req_b", UNKNOWN_OP, {}))
        for id in ("req_a", "req_b"):
            await stub.response(id, f"{id}, one of two in one write")
        for received in stub.transcript:
            well_formed(received)


def _framed(id: str, op: str, body: Frame) -> bytes:
    data = msgspec.json.encode(frame("request", id=id, op=op, body=body))
    return b"Content-Length: %d\r\n\r\n%b" % (len(data), data)


async def _refused(stub: VaiStubHost, what: str, **members: Any) -> None:
    id = f"req_{what.rsplit(maxsplit=1)[-1]}"
    stub.send("request", id=id, **members)
    response = await stub.response(id, f"a request {what}")
    error = response.get("error")
    require(response.get("ok") is False, f"a request {what} was not answered with `ok: false`")
    coded = isinstance(error, dict) and error.get("code") == INVALID_FRAME
    require(coded, f"a request {what} was answered with {error!r:.200}: expected the code {INVALID_FRAME}")


def well_formed(received: Frame) -> None:
    """Checks the shape of a frame that the plugin sent."""
    protocol, kind = received.get("protocol"), received.get("type")
    require(protocol == PROTOCOL, f"it sent a frame whose protocol is {protocol!r:.100}")
    require(kind in ("response", "event"), f"it sent a frame of type {kind!r:.100}")
    if kind == "response":
        whole = received.get("ok") is True and isinstance(received.get("body"), dict)
        require(
            whole or received.get("ok") is False,
            "it sent a response without `ok`, or an ok one without a body",
        )
    else:
        require(isinstance(received.get("event"), dict), "it sent an event that is not an object")


async def events(subject: PluginUnderTest) -> None:
    """Sends each export two concurrent requests, and checks their events and responses."""
    exports = manifest_of(subject).exports
    async with open_stub(subject) as stub:
        asked = [stub.request(*request(subject, export)) for export in (*exports, *exports)]
        for id in asked:
            await stub.response(id, id)
        await stub.drain()
        answered: set[str] = set()
        for received in stub.transcript:
            is_response = received.get("type") == "response"
            of = received.get("id" if is_response else "request_id")
            require(
                of in asked, f"it sent a {received.get('type')} of {of!r:.100}, which was never requested"
            )
            again = "answered it twice" if is_response else "sent another event of it"
            require(of not in answered, f"{of} was answered, and it {again}")
            if is_response:
                answered.add(str(of))


async def cancel(subject: PluginUnderTest) -> None:
    """Checks that a cancelled request is answered in time."""
    async with open_stub(subject) as stub:
        stub.send("cancel", request_id="req_nobody", reason="caller_cancelled")
        for export in manifest_of(subject).exports:
            id = stub.request(*request(subject, export))
            stub.send("cancel", request_id=id, reason="caller_cancelled")
            try:
                async with asyncio.timeout(CANCEL_WITHIN):
                    await stub.response(id, f"{export.id}, cancelled,")
            except TimeoutError:
                late = f"had not answered {CANCEL_WITHIN:g} s after it was cancelled: a host would kill it"
                raise Failed(f"{export.id} {late}") from None
        await stub.ask(UNKNOWN_OP, {})  # proof that it is alive


async def deadline(subject: PluginUnderTest) -> None:
    """Checks that any form of deadline_at is accepted."""
    async with open_stub(subject) as stub:
        for export in manifest_of(subject).exports:
            for moment in DEADLINES:
                request_context = context(export, deadline_at=moment)
                await stub.ask(*request(subject, export, request_context))


AXES = (
    Axis(
        name="hello",
        promise="answers the host's hello with the package_id and version of its manifest, sends nothing "
        "unrequested, and ends with exit code 0 after shutdown",
        test=hello,
    ),
    Axis(
        name="frames",
        promise="accepts requests in pieces, large ones and several at once, refuses invalid requests with "
        "protocol.invalid_frame, and sends nothing but frames of vai.rpc.v1",
        test=frames,
    ),
    Axis(
        name="events",
        promise="answers each of several requests once, and sends events only of requests that are open",
        test=events,
    ),
    Axis(
        name="cancel",
        promise="answers a cancelled request within 5 s, with any answer, and keeps running",
        test=cancel,
    ),
    Axis(
        name="deadline",
        promise="answers with any form of deadline_at: fractions of a second, an offset, or a time in "
        "the past",
        test=deadline,
    ),
)
