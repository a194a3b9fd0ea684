"""The conformance axes of mcptest plugins.

Only `responses` makes the sample call: the other axes send requests that every plugin can answer, because
each answers an unknown method with an error.
"""

from __future__ import annotations

from typing import Any

import msgspec

from plughost.conformance.axis import Axis, require
from plughost.conformance.plugin_under_test import PluginUnderTest
from plughost.conformance.raw_process import RawProcess
from plughost.contracts.mcptest.errors import METHOD_NOT_FOUND, PARSE_ERROR

NO_SUCH_METHOD = "conformance/no-such-method"
LARGE = 100_000
"""Bytes of a request that does not fit into a pipe's buffer."""


async def exchange(wire: RawProcess, request: dict[str, Any]) -> dict[str, Any]:
    """Sends a request and returns its response, which must have the same id."""
    wire.send(request)
    return await response(wire, request["id"])


async def response(wire: RawProcess, number: int | str) -> dict[str, Any]:
    """Waits for the response with this id."""
    reply = await wire.message(f"the response to id {number!r}")
    same = reply.get("id") == number and type(reply.get("id")) is type(number)
    require(same, f"the response to id {number!r} carries id {reply.get('id')!r}")
    well_formed(reply)
    return reply


def well_formed(reply: dict[str, Any]) -> None:
    """Checks the shape of a response. A null `error` beside a result counts as absent, and a null `result`
    beside an error."""
    error = reply.get("error")
    result = "result" in reply and (error is None or reply["result"] is not None)
    require(result != (error is not None), "a response holds exactly one of `result` and `error`")
    if error is not None:
        proper = isinstance(error, dict) and type(error.get("code")) is int
        require(
            proper and isinstance(error.get("message"), str), "`error` needs an integer code and a message"
        )


def code_of(reply: dict[str, Any]) -> int | None:
    """The error code of a response; None when it has none."""
    code: int | None = (reply.get("error") or {}).get("code")
    return code


def unknown(number: int | str, **more: Any) -> dict[str, Any]:
    """A request for a method that no plugin has."""
    return {"method": NO_SUCH_METHOD, "id": number, **more}


async def responses(subject: PluginUnderTest) -> None:
    """Checks that each request gets one response, and nothing else is written to stdout."""
    async with subject.wire() as wire:
        for number in (1, "two", 3):
            reply = await exchange(wire, _sample_call(subject, number))
            if subject.sample is not None:
                require("result" in reply, f"the sample call was answered with {reply.get('error')}")
        await exchange(wire, {"jsonrpc": "2.0", **unknown(4), "added later": {"by": "another version"}})
        await wire.silent("though nothing was asked")


def _sample_call(subject: PluginUnderTest, number: int | str) -> dict[str, Any]:
    sample = subject.sample
    if sample is None:
        return unknown(number)
    request = {"method": sample.method, "id": number}
    return request if sample.params is msgspec.UNSET else {**request, "params": sample.params}


async def framing(subject: PluginUnderTest) -> None:
    """Checks requests in pieces, joined and large."""
    request = b'{"method":"%s","id":%%d}\n' % NO_SUCH_METHOD.encode()
    async with subject.wire() as wire:
        await exchange(wire, unknown(9))  # now it reads, and does not find all of the pieces at once
        for piece in (request[:9], request[9:25]):
            wire.send_raw(piece)
            await wire.silent("before it had the whole line")
        wire.send_raw(request[25:] % 1)
        await response(wire, 1)
        wire.send_raw(request % 2 + request % 3)  # as after a call that took too long
        both = [(await wire.message("the responses to two requests")).get("id") for _ in (2, 3)]
        require(both in ([2, 3], [3, 2]), f"requests 2 and 3, sent together, were answered as {both}")
        wire.send_raw(b' { "id" : 4 ,\t"method" : "%s" } \r\n' % NO_SUCH_METHOD.encode())
        await response(wire, 4)
        await exchange(wire, unknown(5, params={"text": "é \u2028 😀" + "x" * LARGE}))


async def ids(subject: PluginUnderTest) -> None:
    """Checks that ids are echoed with their JSON type."""
    async with subject.wire() as wire:
        for number in (7, "seven", "7", 0, -1, 2**53, 'a "quoted" \\ back\nslash', "é \u2028 😀"):
            await exchange(wire, unknown(number))


async def dispatch(subject: PluginUnderTest) -> None:
    """Checks the answers to unknown methods with any params."""
    async with subject.wire() as wire:
        asked: list[dict[str, Any]] = [{}, {"params": None}, {"params": [1]}, {"params": {"a": 1}}]
        answers = [await exchange(wire, unknown(number, **params)) for number, params in enumerate(asked, 1)]
    codes = [code_of(answer) for answer in answers]
    if None in codes:
        return  # it answers every method with a result, so it may refuse some params as it likes
    for code in codes:
        require(
            code == METHOD_NOT_FOUND, f"an unknown method is answered with {code}, not {METHOD_NOT_FOUND}"
        )


async def garbage(subject: PluginUnderTest) -> None:
    """Checks the answers to lines that are not JSON."""
    async with subject.wire() as wire:
        for number, line in enumerate((b"this is not JSON", b'{"method": "x", "id"', b"\xff\xfe"), 1):
            wire.send_body(line)
            reply = await wire.message("an error for a line that is not JSON")
            well_formed(reply)
            code = code_of(reply)
            require(
                code == PARSE_ERROR, f"a line that is not JSON is answered with {code}, not {PARSE_ERROR}"
            )
            require(
                reply.get("id") is None, f"a line that is not JSON is answered with id {reply.get('id')!r}"
            )
            await exchange(wire, unknown(number))


async def shutdown(subject: PluginUnderTest) -> None:
    """Checks the exit at the end of stdin, after pending requests are answered."""
    async with subject.wire() as wire:
        await _ends(wire)
    async with subject.wire() as wire:
        wire.send(unknown(1))
        wire.end_input()  # what it was asked before is still answered
        await response(wire, 1)
        await _ends(wire)


async def _ends(wire: RawProcess) -> None:
    wire.end_input()
    status = await wire.exit_status()
    require(status == 0, f"after the end of its stdin it ended with {status}, not 0")
    await wire.ended("after the end of its stdin")


AXES = (
    Axis(
        name="responses",
        promise="answers each request with one response, immediately, and writes nothing else to stdout",
        test=responses,
    ),
    Axis(name="framing", promise="reads each line as one request, however its bytes arrive", test=framing),
    Axis(name="ids", promise="returns a request's id unchanged, including its JSON type", test=ids),
    Axis(
        name="dispatch",
        promise="answers an unknown method with -32601, or any method with a result, and keeps running",
        test=dispatch,
    ),
    Axis(
        name="garbage", promise="answers a line that is not JSON with -32700, and keeps running", test=garbage
    ),
    Axis(
        name="shutdown",
        promise="ends with exit code 0 when its stdin ends, after answering what came before",
        test=shutdown,
    ),
)
