"""The plugin under test in a real host: start it, exercise it, kill it; every wait has a timeout in real
time."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, NamedTuple, TypeVar

import msgspec

from plughost.conformance.ainb.stub_host import NO_SUCH_METHOD, AinbStubHost, manifest_of
from plughost.conformance.axis import Failed
from plughost.conformance.plugin_under_test import PluginUnderTest, within
from plughost.conformance.raw_process import QUIET
from plughost.errors import CallFailed
from plughost.events import Dropped, Exited, StateChanged, Subscription
from plughost.host import Host, Plugin
from plughost.sandbox.untrusted_temp_dir import temporary_folder
from plughost.testing import VirtualClock
from plughost.wire.ledger import FOREVER

T = TypeVar("T")
Ask = Callable[[str, Any], Awaitable[Any]]
Tell = Callable[[str, Any], object]


class HostedPlugin(NamedTuple):
    """The plugin under test, running in a real host with a virtual clock."""

    host: Host
    plugin: Plugin
    clock: VirtualClock
    home: str
    """The plugin's AINB_HOME."""
    timeout: float
    events: Subscription
    """The host's events about the plugin, from its start on."""

    async def ask(self, method: str, params: Any) -> Any:
        """Calls a method; returns its result or its error, since both are answers."""
        try:
            answering = self.plugin.call(method, params, timeout=FOREVER)
            return await self.within(answering, f"the response to {method}")
        except CallFailed as failure:
            return failure.error

    async def within(self, work: Awaitable[T], what: str) -> T:
        return await within(self.timeout, work, what)

    async def answers(self) -> None:
        """Waits until the plugin answers an unknown method: proof that it is alive."""
        await self.ask(NO_SUCH_METHOD, {})

    async def becomes(self, *states: str) -> str:
        """Waits until the plugin reaches one of the states, and returns that state."""
        last = ""
        try:
            async with asyncio.timeout(self.timeout):
                while True:
                    event = await self.events.get()
                    if isinstance(event, Exited):
                        words = event.stderr_tail.strip()[-400:]
                        last = f"; it ended with {event.exit_status}" + (f": {words}" if words else "")
                    if isinstance(event, StateChanged) and event.new in states:
                        return event.new
        except TimeoutError:
            wanted = " or ".join(states)
            raise Failed(f"it is {self.plugin.state} and did not become {wanted}{last}") from None

    def dropped(self, method: str) -> list[str]:
        """The host's warnings about dropped messages of that method; consumes the events."""
        found = []
        while (event := self.events.take()) is not None:
            if isinstance(event, Dropped) and event.what.startswith(f"{method}:"):
                found.append(event.what)
        return found

    def crash(self) -> None:
        """Kills the plugin's process, as the kernel might."""
        os.kill(self.plugin.inspect()["instances"][0]["pid"], signal.SIGTERM)  # its launcher kills all of it


@asynccontextmanager
async def hosted(
    subject: PluginUnderTest,
    *,
    grants: Sequence[str] | None = None,
    prepare: Callable[[Host], object] = lambda host: None,
    **options: Any,
) -> AsyncIterator[HostedPlugin]:
    """Runs the plugin in a real host, with a home folder of its own. `prepare` gets the host before the
    plugin starts."""
    async with AsyncExitStack() as stack:
        home = stack.enter_context(temporary_folder("plughost-conform-"))
        spec = msgspec.structs.replace(
            subject.spec,
            env={**subject.spec.env, "AINB_HOME": home},
            grants=subject.spec.grants if grants is None else grants,
        )
        subject.frames.clear()  # frames of another process would be misleading
        data_root = os.path.join(home, "plugins")
        os.mkdir(data_root)
        options = {"data_root": data_root, "idle_reap_secs": 0, **options}
        subscriptions: list[Subscription] = []

        def prepared(host: Host) -> None:
            subscriptions.append(stack.enter_context(host.events()))
            prepare(host)

        starting = stack.enter_async_context(PluginUnderTest(spec).hosted(prepared, **options))
        host, plugin, clock = await within(subject.timeout, starting, "its answer to plugin/init")
        await within(subject.timeout, plugin.start(), "its answer to plugin/init")
        yield HostedPlugin(host, plugin, clock, home, subject.timeout, *subscriptions)


async def exercise(subject: PluginUnderTest, ask: Ask, tell: Tell, topics: Iterable[str]) -> None:
    """Exercises the plugin with every event, frame and command line that its manifest declares, and the
    sample call."""
    provides = manifest_of(subject).provides
    for topic in topics:
        tell("plugin/handle_event", {"topic": topic, "payload": ""})
    if provides.screens:
        await ask("plugin/render", {"viewport": {"width": 40, "height": 12}, "generation": 0})
    for namespace in provides.cli_namespaces:
        await ask("plugin/cli_dispatch", {"namespace": namespace, "argv": ["--help"]})
    if subject.sample is not None:
        params = subject.sample.params
        await ask(subject.sample.method, {} if params is msgspec.UNSET else params)


async def exercise_stub(subject: PluginUnderTest, host: AinbStubHost) -> None:
    """Exercises the plugin through a stub host and waits until it falls silent."""
    await host.drain()
    await exercise(subject, host.ask, host.notify, host.topics())
    await host.ask(NO_SUCH_METHOD, {})  # a plugin that works in order has answered everything by then
    await host.drain()


async def exercise_hosted(subject: PluginUnderTest, scene: HostedPlugin, topics: Iterable[str]) -> None:
    """Exercises the plugin in a real host and waits until it falls silent."""
    await exercise(subject, scene.ask, scene.plugin.notify, topics)
    await wait_until_quiet(scene)


async def wait_until_quiet(scene: HostedPlugin) -> None:
    """Waits until the plugin's last messages have most likely been handled."""
    await scene.answers()
    await asyncio.sleep(QUIET)
    await scene.answers()
