"""The axes of mcptest plugins."""

from __future__ import annotations

from typing import Any

import msgspec

from plughost.conformance.axis import Axis, demand
from plughost.conformance.subject import Subject
from plughost.conformance.wire import Wire

NO_SUCH_METHOD = "conformance/no-such-method"
PARSE_ERROR, METHOD_NOT_FOUND = -32700, -32601


async def answered(wire: Wire, request: dict[str, Any]) -> dict[str, Any]:
    """The response to a request, which must be a response to just that one."""
    wire.send(request)
    response = await wire.message(f"the response to {request['method']!r}")
    number = request["id"]
    same = response.get("id") == number and type(response.get("id")) is type(number)
    demand(same, f"the response to id {number!r} carries id {response.get('id')!r}")
    shape = ("result" in response) != (response.get("error") is not None)
    demand(shape, "a response holds exactly one of `result` and `error`")
    if (error := response.get("error")) is not None:
        proper = isinstance(error, dict) and type(error.get("code")) is int
        demand(
            proper and isinstance(error.get("message"), str), "`error` needs an integer code and a message"
        )
    return response


def _call(subject: Subject, number: int | str) -> dict[str, Any]:
    """The sample call, or one that every plugin can answer: with -32601."""
    if subject.sample is None:
        return {"method": NO_SUCH_METHOD, "id": number}
    request = {"method": subject.sample.method, "id": number}
    return request if subject.sample.params is msgspec.UNSET else {**request, "params": subject.sample.params}


async def responses(subject: Subject) -> None:
    async with subject.wire() as wire:
        for number in (1, 2, 3):
            response = await answered(wire, _call(subject, number))
            if subject.sample is not None:
                demand("result" in response, f"the sample call was answered with {response.get('error')}")
        await wire.silent("though nothing was asked")


async def ids(subject: Subject) -> None:
    async with subject.wire() as wire:
        for number in (7, "seven", 2**53, "7", -1):
            await answered(wire, _call(subject, number))


async def dispatch(subject: Subject) -> None:
    async with subject.wire() as wire:
        for number in (1, 2):
            for params in ({}, {"params": None}, {"params": [1]}):
                response = await answered(wire, {"method": NO_SUCH_METHOD, "id": number, **params})
                code = (response.get("error") or {}).get("code")
                demand(
                    code == METHOD_NOT_FOUND,
                    f"an unknown method is answered with {code}, not {METHOD_NOT_FOUND}",
                )


async def garbage(subject: Subject) -> None:
    async with subject.wire() as wire:
        for line in (b"this is no JSON", b'{"method": "x", "id"', b"\xff\xfe"):
            wire.send_body(line)
            response = await wire.message("an error for a line that is no JSON")
            code = (response.get("error") or {}).get("code")
            demand(code == PARSE_ERROR, f"a line that is no JSON is answered with {code}, not {PARSE_ERROR}")
        await answered(wire, _call(subject, 1))


async def shutdown(subject: Subject) -> None:
    for calls in (0, 1):
        async with subject.wire() as wire:
            for number in range(calls):
                await answered(wire, _call(subject, number))
            wire.end_input()
            status = await wire.exit_status()
            demand(status == 0, f"after the end of its stdin it ended with {status}, not 0")
            await wire.silent("after the end of its stdin")


AXES = (
    Axis(
        name="responses",
        promise="answers each request with one response, at once, and says nothing else on stdout",
        test=responses,
    ),
    Axis(name="ids", promise="echoes a request's id with the JSON type it came with", test=ids),
    Axis(
        name="dispatch", promise="answers a method it does not know with -32601, and lives on", test=dispatch
    ),
    Axis(name="garbage", promise="answers a line that is no JSON with -32700, and lives on", test=garbage),
    Axis(name="shutdown", promise="ends with exit code 0 when its stdin ends", test=shutdown),
)
