"""The axes of the protocol: the answer to plugin/init, framing, and method dispatch."""

from __future__ import annotations

import asyncio
import tomllib
from typing import Any

import msgspec

from plughost.conformance.ainb.hosted_plugin import hosted
from plughost.conformance.ainb.stub_host import NO_SUCH_METHOD, AinbStubHost, manifest_of, open_stub, read
from plughost.conformance.axis import Axis, Warned, require
from plughost.conformance.conversation import Message
from plughost.conformance.plugin_under_test import PluginUnderTest
from plughost.conformance.raw_process import QUIET
from plughost.contracts.ainb import manifest as manifests
from plughost.contracts.ainb.manifest import AinbManifest
from plughost.contracts.jsonrpc import INVALID_PARAMS, METHOD_NOT_FOUND

PAUSE = 0.02
"""Seconds between the pieces of a frame, so that they are read one by one."""
LARGE = 1 << 20
NOT_JSON_RPC = (
    b"this is not JSON",
    b"[]",
    b"null",
    b"\xff\xfe",
    b'{"jsonrpc":"2.0","id":987654,"result":{}}',
)

WRONG_PARAMS = {"screens": ("plugin/render", {}), "cli_namespaces": ("plugin/cli_dispatch", {"argv": 7})}


async def manifest(subject: PluginUnderTest) -> None:
    """Checks the round trip of the manifest, and the manifest in the answer to plugin/init."""
    disk = manifest_of(subject)
    again = msgspec.convert(tomllib.loads(manifests.write(disk)), AinbManifest)
    require(again == disk, "its manifest changes when it is encoded and decoded again")
    async with open_stub(subject) as host:
        result = await host.init()
    lacking = [name for name in ("name", "version", "abi_version", "manifest") if result.get(name) is None]
    complaint = (
        f"its answer to plugin/init lacks {', '.join(lacking)}: it must carry its manifest, decoded, "
        "and its abi_version, beside name and version"
    )
    forgiven = subject.lenient and not {"name", "version"} & {*lacking}
    require(not lacking or forgiven, f"{complaint} (--lenient accepts name and version alone)")
    for name in ("name", "version", "abi_version"):
        if name in lacking:
            continue
        ours, sent = getattr(disk.plugin, name), result[name]
        same = sent == ours and type(sent) is type(ours)
        require(
            same, f"its {name} is {sent!r:.100} in its answer to plugin/init, but {ours!r} in manifest.toml"
        )
    if "manifest" in lacking:
        raise Warned(complaint)
    answered: AinbManifest = read(
        result["manifest"], AinbManifest, "the manifest in its answer to plugin/init"
    )
    for section in AinbManifest.__struct_fields__:
        ours, sent = getattr(disk, section), getattr(answered, section)
        require(
            sent == ours,
            f"[{section}] in its answer to plugin/init is {sent!r:.300}, and in manifest.toml {ours!r:.300}",
        )
    if lacking:
        raise Warned(complaint)


def framed(message: Any) -> bytes:
    """A message in its Content-Length frame."""
    body = msgspec.json.encode(message)
    return b"Content-Length: %d\r\n\r\n%b" % (len(body), body)


def unknown(number: int, **params: Any) -> Message:
    """A request for a method that no plugin has."""
    return {"jsonrpc": "2.0", "id": number, "method": NO_SUCH_METHOD, "params": params}


async def framing(subject: PluginUnderTest) -> None:
    """Checks frames in pieces, joined, large and malformed."""
    async with open_stub(subject) as host:
        await _in_pieces(host)
        host.wire.send_raw(framed(unknown(11)) + framed(unknown(12)) + framed(unknown(13)))
        for number in (11, 12, 13):
            await host.response(number, "one of three requests in one write")
        host.request("cts/größe-不明", {}, 14)
        await host.response(14, "a method whose name has more bytes than characters")
        host.wire.send(unknown(15, padding="x" * LARGE))
        await host.response(15, "a request of 1 MiB")
        for body in NOT_JSON_RPC:
            host.wire.send_body(body)
        host.wire.send(unknown(16))
        await host.response(16, "a request after bodies that are not JSON-RPC requests")
        await host.drain()
        for message in host.transcript:
            _check_envelope(message)
        host.wire.send_raw(b"Content-Length: 100\r\n\r\n{")
        host.wire.end_input()
        await host.wire.exit_status()


async def _in_pieces(host: AinbStubHost) -> None:
    first = {"jsonrpc": "2.0", "id": 10, "method": "plugin/init", "params": host.init_params()}
    whole = framed(first)
    for begin, end in ((0, 5), (5, 18), (18, 30), (30, len(whole) - 1), (len(whole) - 1, len(whole))):
        host.wire.send_raw(whole[begin:end])
        await asyncio.sleep(PAUSE)
    await host.response(10, "plugin/init, which came in pieces")


def _check_envelope(message: Message) -> None:
    require(message.get("jsonrpc") == "2.0", 'a message without `"jsonrpc": "2.0"`: real hosts drop it')
    if "method" in message:
        require(isinstance(message["method"], str), "a method that is not a string")
        require(
            isinstance(message.get("params", {}), dict), f"params of {message['method']} are not an object"
        )
        return
    both = ("result" in message) == ("error" in message)
    require(
        not both, "a response holds exactly one of `result` and `error`; the other must be absent, not null"
    )
    if "error" in message:
        problem = message["error"]
        proper = isinstance(problem, dict) and type(problem.get("code")) is int
        require(
            proper and isinstance(problem.get("message"), str), "`error` needs an integer code and a message"
        )


async def dispatch(subject: PluginUnderTest) -> None:
    """Checks the answers to unknown methods, wrong params and notifications."""
    provides = manifest_of(subject).provides
    async with open_stub(subject) as host:
        await _refuses(host, NO_SUCH_METHOD, {}, METHOD_NOT_FOUND, "before plugin/init")
        await host.init(config=None, host={"kind": "conformance", "pid": 1}, cts_unknown=[1])
        for extra in ({}, {"cts": [None, 1]}):
            await _refuses(host, NO_SUCH_METHOD, extra, METHOD_NOT_FOUND, "after plugin/init")
        host.request(NO_SUCH_METHOD, {}, 2**40)
        await host.response(2**40, "a request with a large id")
        for offer, (method, params) in WRONG_PARAMS.items():
            if getattr(provides, offer):
                await _refuses(host, method, params, INVALID_PARAMS, f"with the params {params}")
        if provides.screens:
            viewport = {"width": 8, "height": 2, "cts_unknown": True}
            response = await host.ask("plugin/render", {"viewport": viewport, "cts_unknown": 1})
            require(
                "result" in response, "it refused plugin/render because of a member that it does not know"
            )
        host.notify("cts/definitely_not_a_notification", {})
        host.notify("plugin/handle_event", {"topic": "cts.unknown", "payload": "", "cts_unknown": 1})
        key = {"code": {"type": "f", "n": 12}, "mods": 0, "kind": "press"}
        host.notify("plugin/handle_key", {"screen_id": "cts", "key": key, "generation": 0})
        await asyncio.sleep(QUIET)
        await _refuses(host, NO_SUCH_METHOD, {}, METHOD_NOT_FOUND, "after notifications")
        require(not host.unsolicited(), "it answered a notification, which must not be answered")
    async with hosted(subject) as scene:
        failure = await scene.ask(NO_SUCH_METHOD, {})
        require(
            isinstance(failure, dict) and failure.get("code") == METHOD_NOT_FOUND,
            f"under a host it answers a method that it does not know with {failure!r:.200}",
        )


async def _refuses(host: AinbStubHost, method: str, params: Any, code: int, when: str) -> None:
    response = await host.ask(method, params)
    problem = response.get("error")
    code_received = problem.get("code") if isinstance(problem, dict) else None
    answer = f"the error {code_received}" if problem is not None else "a result"
    require(code_received == code, f"it answers {method} {when} with {answer}: it should be the error {code}")


AXES = (
    Axis(
        name="manifest",
        promise="its manifest survives encoding and decoding, and is the one in its answer to plugin/init",
        test=manifest,
    ),
    Axis(
        name="framing",
        promise="accepts frames in pieces, writes well-formed ones, keeps running after a body that is not "
        "JSON-RPC, and exits when its stdin ends in the middle of a frame",
        test=framing,
    ),
    Axis(
        name="dispatch",
        promise="answers an unknown method with -32601, also before plugin/init, and wrong params with "
        "-32602; does not answer notifications; ignores unknown members",
        test=dispatch,
    ),
)
