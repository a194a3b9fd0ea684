"""The axes of permissions: the host's storage, and access that the sandbox must deny."""

from __future__ import annotations

import asyncio
from typing import Any

from plughost.conformance.axis import Axis, Skipped, require
from plughost.conformance.conversation import Message
from plughost.conformance.jsonrpc_client import Answers, error
from plughost.conformance.kaged.honeypot import Honeypot, open_honeypot
from plughost.conformance.kaged.stub_host import (
    StubStorage,
    exercise,
    manifest_of,
    open_stub,
    with_all_declared,
)
from plughost.conformance.plugin_under_test import PluginUnderTest, within
from plughost.conformance.raw_process import QUIET
from plughost.contracts.jsonrpc import CAPABILITY_DENIED
from plughost.contracts.kaged.contract import READ, WRITE, KagedContract
from plughost.errors import CallFailed, HandshakeFailed, LaunchFailed
from plughost.host import Host, Plugin
from plughost.wire.ledger import FOREVER

CLASS = "strict"
HOST_METHODS = KagedContract.host_methods


def _refusing(*capabilities: str) -> Answers:
    """Answers as a host that denies these storage capabilities."""
    storage = StubStorage()

    def answer(method: str, params: Any) -> Message:
        if method in HOST_METHODS and HOST_METHODS[method].capability in capabilities:
            return error(CAPABILITY_DENIED, f"capability denied: {HOST_METHODS[method].capability}")
        return storage(method, params)

    return answer


async def storage(subject: PluginUnderTest) -> None:
    """Checks that the plugin uses only declared storage methods, and survives when they are denied."""
    declared = manifest_of(subject).capabilities
    async with open_stub(subject) as host:
        await host.begin()
        await exercise(subject, host.ask)
        await host.drain()
        used = {message["method"] for message in host.incoming} & {*HOST_METHODS}
        for method in sorted(used):
            needed = HOST_METHODS[method].capability
            require(needed in declared, f"it uses {method}: its manifest must declare {needed}")
    if not used:
        raise Skipped("it used no storage during the checks")
    for available, refused in ((True, (WRITE,)), (False, (READ, WRITE))):
        async with open_stub(subject, _refusing(*refused), stores=available) as host:
            await host.begin()
            await exercise(subject, host.ask)
            await host.drain()
            await host.answers_on()


async def capabilities(subject: PluginUnderTest) -> None:
    """Runs the plugin in class strict beside a honeypot, and checks that it reaches only what it declares."""
    subject.frames.clear()
    async with open_honeypot() as bait:
        spec = with_all_declared(subject.spec, sandbox=CLASS, env={**subject.spec.env, **bait.env})
        confined = PluginUnderTest(spec, subject.sample, subject.timeout)
        try:
            async with confined.hosted(bait.prepare, data_root=bait.data, failure_limit=1) as (
                host,
                plugin,
                _,
            ):
                await _lives(confined, host, plugin, bait)
        except LaunchFailed as failure:
            raise Skipped(f"it cannot be confined here: {failure.explain()}") from None
        except HandshakeFailed as failure:
            raise Skipped(f"a host refuses it: {failure.message}") from None


async def _lives(subject: PluginUnderTest, host: Host, plugin: Plugin, bait: Honeypot) -> None:
    async def ask(method: str, params: Any) -> None:
        try:
            answering = plugin.call(method, params, timeout=FOREVER)
            await within(subject.timeout, answering, f"the response to {method}, confined,")
        except CallFailed:
            pass  # an error is an answer

    await exercise(subject, ask)
    await asyncio.sleep(QUIET)  # until the host's last remark on it is written, most likely
    for line in host.service("logs").recent(plugin.name):
        strays = line.source == "denied" and line.message.startswith("connect ")
        require(
            not strays or bait.is_meant(line.message),
            f"it asks for something that its manifest does not declare: {line.message}",
        )
    require(not bait.taken(), f"it went beyond its capabilities: {', '.join(bait.taken())}")
    require(plugin.state == "Running", f"it does not keep running in a sandbox; its state is {plugin.state}")


AXES = (
    Axis(
        name="storage",
        promise="uses the host's storage only as declared, and keeps running when that is denied",
        test=storage,
    ),
    Axis(
        name="capabilities",
        promise="works in the sandbox class strict with what it declares, contacts no other host, and "
        "accesses nothing else",
        test=capabilities,
    ),
)
