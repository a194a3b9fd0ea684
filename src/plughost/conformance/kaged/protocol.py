"""The axes of the protocol: handshake, methods, health checks and shutdown."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import msgspec

from plughost.conformance.axis import Axis, Failed, require
from plughost.conformance.conversation import Message
from plughost.conformance.kaged.stub_host import (
    NO_SUCH_METHOD,
    KagedStubHost,
    exercise,
    manifest_of,
    open_stub,
    with_all_declared,
)
from plughost.conformance.plugin_under_test import PluginUnderTest
from plughost.contracts.jsonrpc import INVALID_PARAMS, METHOD_NOT_FOUND
from plughost.contracts.kaged.contract import HEALTH_TIMEOUT
from plughost.contracts.kaged.session import PROBES

CONTEXT = {
    "operator_id": "operator",
    "project_id": "project",
    "agent_path": "primary",
    "session_id": "session",
    "request_id": "request",
}
TRIES = 3
"""Attempts for what must happen within a time: a busy machine may be late, a plugin may not."""


async def handshake(subject: PluginUnderTest) -> None:
    """Checks the answer to initialize as the host does."""
    spec = with_all_declared(subject.spec)
    session = subject.contract.session(spec, subject.contract.resolve(spec))
    session.on_start(None)
    async with open_stub(subject) as host:
        response = await host.initialize()
        well_formed("initialize", response)
        session.receive(msgspec.json.encode(response))  # checked as the host checks it
        host.notify("initialized", {})
        await host.answers_on()  # a plugin that works in order has answered everything by then
        await host.drain()
        require(
            not host.unsolicited(), "it answered the notification initialized: only requests are answered"
        )


async def methods(subject: PluginUnderTest) -> None:
    """Calls every declared method and hook, with a context and without."""
    async with open_stub(subject) as host:
        await host.begin()
        plain = await exercise(subject, host.ask)
        with_context = await exercise(subject, host.ask, CONTEXT)
        for method, response in (*plain.items(), *with_context.items()):
            well_formed(method, response)
            known = code_of(response) != METHOD_NOT_FOUND
            require(known, f"its manifest declares {method}, but it answers with {METHOD_NOT_FOUND}")
        for method, response in with_context.items():
            bothered = "result" in plain[method] and code_of(response) == INVALID_PARAMS
            require(not bothered, f"{method} works, but with a _context it is answered with {INVALID_PARAMS}")
        if subject.sample is not None:
            called = subject.sample.method
            require(
                called in with_context,
                f"the sample calls {called!r:.100}, which its manifest does not declare",
            )
            response = with_context[called]
            require("result" in response, f"the sample call was answered with {response.get('error')}")
        response = await host.ask(NO_SUCH_METHOD, {})
        well_formed(NO_SUCH_METHOD, response)
        code = code_of(response)
        require(
            code == METHOD_NOT_FOUND, f"an unknown method is answered with {code}, not {METHOD_NOT_FOUND}"
        )
        await host.drain()
        require(not host.unsolicited(), "it answered a request twice, or answered without a request")


def well_formed(method: str, response: Message) -> None:
    """Checks the shape of a response. `"error": null` beside a result counts as absent."""
    error = response.get("error")
    exactly_one = ("result" in response) != (error is not None)
    require(exactly_one, f"its answer to {method} does not hold exactly one of `result` and `error`")
    require(response.get("jsonrpc") == "2.0", f"its answer to {method} lacks `jsonrpc` 2.0")
    if error is not None:
        proper = isinstance(error, dict) and type(error.get("code")) is int
        require(
            proper and isinstance(error.get("message"), str),
            f"the error that answers {method} needs an integer code and a message",
        )


def code_of(response: Message) -> Any:
    """The error code of a response; None when it has none."""
    error = response.get("error")
    return error.get("code") if isinstance(error, dict) else None


async def health(subject: PluginUnderTest) -> None:
    """Checks that a health check is answered in time."""
    async with open_stub(subject) as host:
        await host.begin()
        for probe in PROBES:
            response = await _in_time(host, probe)
            well_formed(probe, response)
            if code_of(response) != METHOD_NOT_FOUND:
                return


async def _in_time(host: KagedStubHost, probe: str) -> Message:
    try:
        async with asyncio.timeout(HEALTH_TIMEOUT):
            return await host.ask(probe, {})
    except TimeoutError:
        raise Failed(f"{probe} was not answered within {HEALTH_TIMEOUT:g} s: a host would kill it") from None


async def shutdown(subject: PluginUnderTest) -> None:
    """Checks the exit after shutdown and after the end of stdin."""
    limit = manifest_of(subject).shutdown_timeout_sec
    took: list[float] = []
    while len(took) < TRIES and not (took and took[-1] <= limit):
        took.append(await _time_to_end(subject))
    require(
        min(took) <= limit,
        f"it ended {min(took):.2f} s after it was asked to; its shutdown_timeout_sec is {limit}",
    )
    async with open_stub(subject) as host:
        await host.begin()
        host.wire.end_input()  # as when the host is gone
        await host.wire.exit_status(limit + subject.timeout)


async def _time_to_end(subject: PluginUnderTest) -> float:
    async with open_stub(subject) as host:
        await host.begin()
        began = time.monotonic()
        response = await host.ask("shutdown", {})
        well_formed("shutdown", response)
        require("result" in response, f"it answered shutdown with the error {response.get('error')}")
        host.wire.end_input()
        status = await host.wire.exit_status(manifest_of(subject).shutdown_timeout_sec + subject.timeout)
        require(status == 0, f"after shutdown and the end of its stdin it ended with {status}, not 0")
        return time.monotonic() - began


AXES = (
    Axis(
        name="handshake",
        promise="answers initialize with the identity in its manifest, and does not answer initialized",
        test=handshake,
    ),
    Axis(
        name="methods",
        promise="answers every declared method and hook, with or without a _context, and other methods with "
        "-32601",
        test=methods,
    ),
    Axis(
        name="health",
        promise="answers health.check or ping within 5 s, if it has either",
        test=health,
    ),
    Axis(
        name="shutdown",
        promise="answers shutdown and ends with exit code 0 within its shutdown_timeout_sec; also exits "
        "when its stdin ends",
        test=shutdown,
    ),
)
