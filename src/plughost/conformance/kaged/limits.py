"""The axes of limits: message size, notification rate, declared notifications."""

from __future__ import annotations

import time
from collections.abc import Awaitable

from plughost.conformance.axis import Axis, require
from plughost.conformance.kaged.stub_host import exercise, manifest_of, open_stub, params_for
from plughost.conformance.plugin_under_test import PluginUnderTest
from plughost.contracts.kaged.contract import MAX_NOTIFY_RATE
from plughost.contracts.kaged.session import MAX_SENT
from plughost.wire.messages import encode


async def size(subject: PluginUnderTest) -> None:
    """Sends each method the largest message. A response over the host's limit fails in the framing."""
    for method in sorted(manifest_of(subject).all_methods):
        async with open_stub(subject) as host:
            await host.begin()
            params = {**params_for(subject, method), "padding": ""}
            message = {"jsonrpc": "2.0", "id": 0, "method": method, "params": params}
            params["padding"] = "x" * (MAX_SENT - len(encode(message)))
            host.request(method, params, 0)
            await host.response(0, f"{method} with a message of {MAX_SENT} bytes")
            await host.answers_on()


async def rate(subject: PluginUnderTest) -> None:
    """Checks how many notifications each call causes."""
    async with open_stub(subject) as host:

        async def count_notifications(what: str, work: Awaitable[object]) -> None:
            before, began = len(host.incoming), time.monotonic()
            await work
            await host.drain()
            took = time.monotonic() - began  # a slow machine makes this longer, never shorter
            sent = sum(message.get("id") is None for message in host.incoming[before:])
            require(
                sent <= MAX_NOTIFY_RATE * (1 + took),
                f"{what} made it send {sent} notifications in {took:.2f} s: a host drops those above "
                f"{MAX_NOTIFY_RATE} per second",
            )

        await count_notifications("its start", host.begin())
        await exercise(subject, lambda method, params: count_notifications(method, host.ask(method, params)))


async def notifications(subject: PluginUnderTest) -> None:
    """Checks that the plugin sends only notifications that its manifest declares."""
    declared = manifest_of(subject).notifications
    async with open_stub(subject) as host:
        announced = (await host.begin()).get("notifications", [])
        for name in announced if isinstance(announced, list) else [announced]:
            require(name in declared, f"it announces {name!r:.100}, which its manifest does not declare")
        await host.drain()
        await exercise(subject, host.ask)
        await host.drain()
        for message in host.incoming:
            name = message["method"]
            require(
                message.get("id") is not None or name in declared,
                f"it sent the notification {name!r:.100}: its manifest does not declare that",
            )


AXES = (
    Axis(
        name="size",
        promise=f"accepts a message of {MAX_SENT:,} bytes, and sends none of more than 4,194,304 bytes",
        test=size,
    ),
    Axis(
        name="rate",
        promise=f"sends at most {MAX_NOTIFY_RATE} notifications per second, in bursts of at most "
        f"{MAX_NOTIFY_RATE}",
        test=rate,
    ),
    Axis(
        name="notifications",
        promise="sends only notifications that its manifest declares",
        test=notifications,
    ),
)
