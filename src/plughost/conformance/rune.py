"""The conformance axes of rune plugins. Each checks one thing only and tolerates the rest."""

from __future__ import annotations

import secrets
import time
from collections.abc import Mapping
from typing import Any

import msgspec

from plughost.conformance.axis import Axis, require
from plughost.conformance.plugin_under_test import PluginUnderTest
from plughost.conformance.raw_process import RawProcess

CONTEXT = {
    "workspace_id": "workspace",
    "widget_id": "widget",
    "repo_root": "/repo",
    "role_id": "role",
    "mode_id": "mode",
}
UNKNOWN = {"added later": {"by": ["another", "version"]}}
NO_SUCH_TOOL = "conformance.no-such-tool"
ANOTHER_VERSION = "rterm.plugin.conformance"
TRIES = 3
"""Attempts for what must happen within a time: a busy machine may be late, a plugin may not."""


async def do_handshake(wire: RawProcess, version: str, more: Mapping[str, Any] = {}) -> dict[str, Any]:
    """Sends the handshake and returns the plugin's manifest."""
    wire.send({"type": "handshake", "protocol_version": version, **more})
    return _manifest(await wire.message("the handshake"))


def _manifest(handshake: dict[str, Any]) -> dict[str, Any]:
    require(
        handshake.get("type") == "handshake",
        f"its first line is of type {handshake.get('type')!r}, not 'handshake'",
    )
    manifest = handshake.get("manifest")
    require(isinstance(manifest, dict), "its handshake has no manifest")
    return dict(manifest or {})


def request(subject: PluginUnderTest, manifest: dict[str, Any]) -> dict[str, Any]:
    """The sample call; without one, a call of the first exposed tool, which may answer with an error."""
    sample = subject.sample
    if sample is None:
        return _execute(next(iter(_words(manifest.get("exposed_tools"))), NO_SUCH_TOOL), {})
    return _execute(sample.method, {} if sample.params is msgspec.UNSET else sample.params)


def _execute(tool: str, given: Any, context: Mapping[str, str] = CONTEXT) -> dict[str, Any]:
    return {
        "type": "request",
        "request_id": f"plugin_req_{secrets.token_hex(8)}",
        "tool_name": tool,
        "context": dict(context),
        "input": given,
    }


def _words(value: Any) -> list[str]:
    return [word for word in value if isinstance(word, str)] if isinstance(value, list) else []


def well_formed(asked: dict[str, Any], response: dict[str, Any]) -> None:
    """Checks the shape of a response. `null` equals absent for every member."""
    kind, number, status = response.get("type"), response.get("request_id"), response.get("status")
    require(kind == "response", f"its answer is of type {kind!r}, not 'response'")
    require(number == asked["request_id"], f"it answered request {number!r}, not {asked['request_id']!r}")
    require(status in ("ok", "error"), f"its answer has the status {status!r}")
    if status == "ok":
        require(response.get("error") is None, "its answer has status ok and also an error")
    else:
        has_error_object(response)
    metadata = response.get("metadata")
    require(metadata is None or isinstance(metadata, dict), "its answer's metadata is not an object")


def has_error_object(response: dict[str, Any]) -> None:
    """Checks the error object of a response."""
    error = response.get("error")
    require(isinstance(error, dict), "its answer is an error without an error object")
    message, code = (error or {}).get("message"), (error or {}).get("code")
    require(isinstance(message, str) and message.strip(), "its error has no message")
    require(code is None or isinstance(code, str), "its error's code is not text")


async def handshake(subject: PluginUnderTest) -> None:
    """Checks the manifest in the handshake."""
    async with subject.wire() as wire:
        manifest = await do_handshake(wire, subject.resolved.settings.protocol, UNKNOWN)
        for member in ("plugin_id", "plugin_version"):
            value = manifest.get(member)
            require(isinstance(value, str) and value.strip(), f"its manifest has no {member}")
        for member in ("protocol_version", "exposed_tools"):
            require(manifest.get(member), f"its manifest has no {member}")
        name, bound = manifest["plugin_id"], subject.spec.name
        require(name == bound, f"it calls itself {name!r}, but is configured as {bound!r}")
        await wire.silent("before it was given a request")


async def version(subject: PluginUnderTest) -> None:
    """Checks the protocol version in the handshake, also when the host asks for another."""
    own = subject.resolved.settings.protocol
    async with subject.wire() as wire:
        _speaks(own, own, await do_handshake(wire, own))
    async with subject.wire() as wire:
        wire.send({"type": "handshake", "protocol_version": ANOTHER_VERSION})
        handshake = await wire.message_or_end("the handshake")
        if handshake is not None:  # it may also exit instead: it is the host who compares the versions
            _speaks(own, ANOTHER_VERSION, _manifest(handshake))


def _speaks(own: str, asked: str, manifest: dict[str, Any]) -> None:
    version = manifest.get("protocol_version")
    claimed = "; it repeats whatever version it is asked for" if version == asked != own else ""
    require(
        isinstance(version, str) and version.strip() == own,
        f"asked for {asked!r}, it says that it speaks {version!r}, not {own!r}{claimed}",
    )


async def requests(subject: PluginUnderTest) -> None:
    """Checks the response to a request, also to one in pieces and with unknown members."""
    async with subject.wire() as wire:
        manifest = await do_handshake(wire, subject.resolved.settings.protocol)
        asked = request(subject, manifest)
        wire.send(asked)
        response = await wire.message("the response")
        well_formed(asked, response)
        if subject.sample is not None:
            require(response["status"] == "ok", f"the sample call was answered with {response.get('error')}")
    async with subject.wire() as wire:
        more: dict[str, Any] = {"context": {}, **UNKNOWN}
        asked = {**request(subject, await do_handshake(wire, subject.resolved.settings.protocol)), **more}
        line = msgspec.json.encode(asked) + b"\r\n"
        wire.send_raw(line[:20])
        await wire.silent("before it had the whole request")
        wire.send_raw(line[20:])
        well_formed(asked, await wire.message("the response to a request with unknown members"))


async def tools(subject: PluginUnderTest) -> None:
    """Checks the list of exposed tools, and the answer to an unknown tool."""
    async with subject.wire() as wire:
        manifest = await do_handshake(wire, subject.resolved.settings.protocol)
        exposed = manifest.get("exposed_tools")
        names = _words(exposed)
        require(names and names == exposed, "its exposed_tools is not a list of names, or is empty")
        tidy = all(name and name == name.strip() for name in names)
        require(tidy, "the name of one of its exposed_tools is blank or has spaces around it")
        require(len(set(names)) == len(names), "one of its exposed_tools is listed twice")
        if subject.sample is not None:
            tool = subject.sample.method
            require(tool in names, f"it does not expose {tool!r}; it exposes: {', '.join(names)}")
        wire.send(_execute(NO_SUCH_TOOL, {}))
        response = await wire.message("the response to a tool that it does not have")
        status = response.get("status")
        require(status == "error", f"a tool that it does not have is answered with status {status!r}")
        has_error_object(response)


async def capabilities(subject: PluginUnderTest) -> None:
    """Checks that the declared capabilities are well-formed and granted."""
    async with subject.wire() as wire:
        manifest = await do_handshake(wire, subject.resolved.settings.protocol)
    declared = manifest.get("capabilities")
    words = _words(declared)
    require(declared is None or words == declared, "its capabilities are not a list of words")
    for place, word in enumerate(words):
        require(word and word == word.strip(), f"its capability {word!r} is empty or has spaces around it")
        require(word not in words[:place], f"its capability {word!r} is listed twice")
        require(word in subject.spec.grants, f"it asks for {word!r}, which is not granted: --grant {word}")
    require(words or not subject.spec.grants, "capabilities are granted to it, but it declares none")


async def errors(subject: PluginUnderTest) -> None:
    """Checks that a malformed request is not answered with ok."""
    for line in (b"this is not JSON", b'{"type":"request","request_id":"plugin_req_', b"[]"):
        async with subject.wire() as wire:
            await do_handshake(wire, subject.resolved.settings.protocol)
            wire.send_body(line)
            wire.end_input()
            for reply in await wire.rest("a response"):
                require(reply.get("status") != "ok", "a line that is not a request is answered with ok")


async def exits(subject: PluginUnderTest) -> None:
    """Checks exit status and exit time after the response."""
    grace = subject.resolved.policy.grace
    took: list[float] = []
    while len(took) < TRIES and not (took and took[-1] <= grace):
        took.append(await _time_to_exit(subject))
    require(
        min(took) <= grace,
        f"it ended {min(took):.2f} s after its stdin was closed; the teardown time is {grace:g} s",
    )


async def _time_to_exit(subject: PluginUnderTest) -> float:
    async with subject.wire() as wire:
        wire.send(request(subject, await do_handshake(wire, subject.resolved.settings.protocol)))
        response = await wire.message("the response")
        require(response.get("type") == "response", "its second line is not a response")
        wire.end_input()
        began = time.monotonic()
        status = await wire.exit_status()
        took = time.monotonic() - began
        if response.get("status") == "ok":  # after an error no host checks it
            require(status == 0, f"after its response it ended with {status}, not 0")
        await wire.ended("after its response")
    return took


AXES = (
    Axis(
        name="handshake",
        promise="answers the handshake with one line: a manifest with the name that it is configured under",
        test=handshake,
    ),
    Axis(
        name="version",
        promise="reports the protocol version it speaks; when asked for another, it may exit instead",
        test=version,
    ),
    Axis(
        name="request",
        promise="answers a request with one response to it, and ignores unknown members",
        test=requests,
    ),
    Axis(
        name="tools",
        promise="exposes each tool once, and answers a call of an unknown tool with an error",
        test=tools,
    ),
    Axis(
        name="capabilities",
        promise="declares each capability once, as a word, and all of them are granted",
        test=capabilities,
    ),
    Axis(
        name="errors",
        promise="neither hangs nor answers ok when a line is not a request",
        test=errors,
    ),
    Axis(
        name="exit",
        promise="ends with exit code 0 within the teardown time after its one response, and writes "
        "nothing more",
        test=exits,
    ),
)
