"""The axes of the life cycle: shutdown, restart after a crash, quarantine."""

from __future__ import annotations

import asyncio

from plughost.conformance.ainb.hosted_plugin import HostedPlugin, hosted
from plughost.conformance.ainb.stub_host import open_stub
from plughost.conformance.axis import Axis, Failed, require
from plughost.conformance.plugin_under_test import PluginUnderTest
from plughost.errors import PluginError, Quarantined
from plughost.events import Exited

GRACE = 5.0
LONG = 100_000.0


async def shutdown(subject: PluginUnderTest) -> None:
    """Checks the exit after plugin/shutdown and after the end of stdin."""
    async with open_stub(subject) as host:
        await host.init()
        response = await host.ask("plugin/shutdown", {})
        require("result" in response, "it answered plugin/shutdown with an error")
        require(isinstance(response["result"], dict), "it must answer plugin/shutdown with an object: {}")
        host.wire.end_input()
        status = await host.wire.exit_status(GRACE)
        require(status == 0, f"after plugin/shutdown it ended with {status}, not 0")
    for goodbye in (False, True):
        async with open_stub(subject) as host:
            await host.init()
            if goodbye:  # as some hosts say it: by notification
                host.notify("plugin/shutdown", {})
            host.wire.end_input()
            status = await host.wire.exit_status(GRACE)
            require(status == 0, f"after the end of its stdin it ended with {status}, not 0")
    async with hosted(subject) as scene:
        await scene.within(scene.plugin.stop(), "its end after plugin/shutdown")
        while (event := scene.events.take()) is not None:
            if isinstance(event, Exited):
                require(
                    event.exit_status == 0,
                    f"when a host stopped it, it exited with {event.exit_status}, not 0",
                )


async def recovery(subject: PluginUnderTest) -> None:
    """Kills the plugin once and checks that it starts and answers again."""
    async with hosted(subject) as scene:
        await scene.becomes("Running")
        await scene.answers()
        scene.crash()
        await scene.becomes("Backoff")
        scene.clock.advance(1.0)
        state = await scene.becomes("Running", "Backoff")
        require(state == "Running", f"it failed when it was started again after a kill{_last_words(scene)}")
        await scene.answers()


def _last_words(scene: HostedPlugin) -> str:
    lines = scene.host.service("logs").recent(scene.plugin.name)
    words = [line.message for line in lines if line.source in ("log", "stderr")]
    return f"; its last words: {words[-1]}" if words else "; it must also start after an unclean end"


async def quarantine(subject: PluginUnderTest) -> None:
    """Kills the plugin three times and checks that it is quarantined, and answers again after a reload."""
    async with hosted(subject) as scene:
        await scene.becomes("Running")
        for delay in (1.0, 4.0, 0.0):
            if scene.plugin.state == "Running":
                scene.crash()
                await scene.becomes("Backoff", "Quarantined")
            if scene.plugin.state == "Backoff":
                scene.clock.advance(delay)
                await scene.becomes("Running", "Backoff", "Quarantined")
        scene.clock.advance(LONG)
        require(scene.plugin.state == "Quarantined", f"after three failures it is {scene.plugin.state}")
        try:
            await scene.answers()
        except Quarantined:
            pass
        else:
            raise Failed("after three failures it still answered")
        await scene.plugin.reload()
        await _answers_again(scene)


async def _answers_again(scene: HostedPlugin) -> None:
    asking = asyncio.create_task(scene.answers())
    try:
        async with asyncio.timeout(scene.timeout):
            while not asking.done():
                await asyncio.wait({asking}, timeout=0.02)
                if scene.plugin.state == "Backoff":
                    scene.clock.advance(16.0)
            await asking
    except PluginError as failure:
        raise Failed(
            f"it does not start when it is reloaded after a quarantine: {failure.explain()}"
        ) from None
    finally:
        asking.cancel()


AXES = (
    Axis(
        name="shutdown",
        promise="answers plugin/shutdown with {} and ends with exit code 0, within 5 s; also when only its "
        "stdin ends",
        test=shutdown,
    ),
    Axis(
        name="recovery",
        promise="starts again and answers after it was killed",
        test=recovery,
    ),
    Axis(
        name="quarantine",
        promise="is not restarted after three kills, and starts and answers again after a reload",
        test=quarantine,
    ),
)
