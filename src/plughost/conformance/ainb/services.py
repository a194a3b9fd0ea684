"""The axes of the host's services: actions that time out, and log messages."""

from __future__ import annotations

import asyncio
from typing import Any

from plughost.conformance.ainb.hosted_plugin import exercise_hosted, exercise_stub, hosted
from plughost.conformance.ainb.stub_host import NO_SUCH_METHOD, bare, open_stub, read
from plughost.conformance.axis import Axis, Skipped, require
from plughost.conformance.conversation import Message
from plughost.conformance.jsonrpc_client import error, params_of
from plughost.conformance.plugin_under_test import PluginUnderTest
from plughost.contracts.ainb.messages import ActionInvokeParams
from plughost.contracts.jsonrpc import TIMED_OUT
from plughost.engine.caller import Caller
from plughost.host import Host
from plughost.services.logs import LEVELS
from plughost.testing.clock import VirtualClock

INVOKE = "host/action/invoke"
MOMENT = 0.02
LONG = 100_000.0


def _too_late(method: str, params: Any) -> Message:
    if method != INVOKE:
        return bare(method, params)
    action = params.get("action") if isinstance(params, dict) else params
    return error(TIMED_OUT, f"action timed out: {action}")


async def action(subject: PluginUnderTest) -> None:
    """Lets the plugin's actions time out and checks that it survives."""
    async with open_stub(subject, _too_late) as host:
        await host.init()
        await exercise_stub(subject, host)
        invoked = host.received(INVOKE)
        if not invoked:
            raise Skipped("it invoked no action during the checks; pass a --sample that makes it invoke one")
        for message in invoked:
            _check_form(message)
            late = {"jsonrpc": "2.0", "id": message["id"], "result": {"payload": ""}}
            host.wire.send(late)  # the request has timed out already
        await host.drain()
        await host.ask(NO_SUCH_METHOD, {})
        require(not host.unsolicited(), "it sent a response that matches no request")
    limits = {params["action"]: params.get("timeout_ms", 0) for params in map(params_of, invoked)}
    async with hosted(subject, prepare=lambda host: _endless(host, limits), init_timeout=LONG) as scene:
        await exercise_hosted(subject, scene, subject.resolved.topics)
        require(scene.plugin.state == "Running", "it stopped running after an action timed out")


def _check_form(message: Message) -> None:
    require(message.get("id") is not None, f"{INVOKE} is a request: it must have an id")
    params = params_of(message)
    text = isinstance(params.get("payload"), str)
    require(text, f"the payload of {INVOKE} must be a string of base64")
    read(params, ActionInvokeParams, f"the payload of its action ({params})")


def _endless(host: Host, limits: dict[str, int]) -> None:
    """Registers actions that outlast the plugin's own timeout, which the clock passes as soon as they have
    begun."""

    async def endless(caller: Caller, payload: bytes) -> bytes:
        clock = caller.plugin.clock if caller.plugin is not None else None
        assert isinstance(clock, VirtualClock)
        asyncio.get_running_loop().call_later(MOMENT, clock.advance, max(limits.values()) / 1000)
        await asyncio.Event().wait()
        return b""

    for name, limit in limits.items():
        if limit:
            host.service("actions").register(name, endless)


async def log(subject: PluginUnderTest) -> None:
    """Checks the form and the levels of the plugin's log messages."""
    async with open_stub(subject) as host:
        await host.init()
        await exercise_stub(subject, host)
        for message in host.received("host/log"):
            require(message.get("id") is None, "host/log is a notification: it must have no id")
            line = params_of(message)
            require(isinstance(line.get("message"), str), "a line of its log has no message")
            require(
                line.get("level") in LEVELS,
                f"it logs with the level {line.get('level')!r:.100}, which hosts drop; "
                f"known: {', '.join(LEVELS)}",
            )
    async with hosted(subject, log_level="warn") as scene:
        await exercise_hosted(subject, scene, subject.resolved.topics)
        refused = scene.dropped("host/log")
        require(not refused, f"the host dropped what it logged: {', '.join(refused[:3])}")
        kept = scene.host.service("logs").recent(subject.spec.name)
        low = [line for line in kept if line.source == "log" and line.level not in ("warn", "error")]
        require(not low, f"with the threshold warn, it still logged {low[:1]}")


AXES = (
    Axis(
        name="action",
        promise="invokes actions with base64 and a whole number of milliseconds, and keeps running when "
        "one times out or answers late",
        test=action,
    ),
    Axis(
        name="log",
        promise="logs in notifications, with a message and one of the five levels",
        test=log,
    ),
)
