"""The synchronous API: the same Host for programs without an event loop. A thread of its own runs one.

with plughost.sync.Host() as host:
    echo = host.add("plugins/echo-mcptest")
    print(echo.call("echo", {"text": "hi"}, timeout=2))

Any thread may use it. Ctrl-C in a waiting call cancels the call.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import inspect
import os
import weakref
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, Self, TypeVar, Unpack, overload

from plughost import host as asynchronous
from plughost._util.loop_thread import LoopThread, in_daemon_thread
from plughost._util.seconds import check_seconds
from plughost.clock import Clock
from plughost.contracts.plugin_calls import CallOptions
from plughost.engine.caller import Caller
from plughost.engine.io.tap import Tap
from plughost.errors import Stopped
from plughost.events import Event, EventKind
from plughost.events import Subscription as EventQueue
from plughost.spec import PluginSpec
from plughost.wire.messages import ABSENT

__all__ = ["Host", "Plugin", "Subscription"]

T = TypeVar("T")

Service = Callable[["Plugin", Any], Any]
"""Answers requests of plugins to the host: called with the plugin and its params, in a thread of its own."""


class Plugin:
    """A plugin of a synchronous host: call it, reload it, stop it. See `plughost.Plugin`."""

    def __init__(self, plugin: asynchronous.Plugin, loop: LoopThread) -> None:
        self.asynchronous = plugin
        """The asynchronous plugin, for typed clients:
        `host.run(Mcptest(plugin.asynchronous).request("ping"))`."""
        self.name = plugin.name
        self.contract = plugin.contract
        self._loop = loop

    def __repr__(self) -> str:
        return repr(self.asynchronous)

    @property
    def spec(self) -> PluginSpec:
        """The specification that it runs by."""
        return self.asynchronous.spec

    @property
    def state(self) -> str:
        """The state of the current instance, such as `Running`."""
        return self.asynchronous.state

    @property
    def generation(self) -> int:
        """The number of the current generation: one more with every reload."""
        return self.asynchronous.generation

    @overload
    def call(self, method: str, params: Any = ..., *, type: type[T], **options: Unpack[CallOptions]) -> T: ...

    @overload
    def call(
        self, method: str, params: Any = ..., *, type: Any = ..., **options: Unpack[CallOptions]
    ) -> Any: ...

    def call(
        self, method: str, params: Any = ABSENT, *, type: Any = Any, **options: Unpack[CallOptions]
    ) -> Any:
        """Call a method and return its result. Parameters and errors are those of `plughost.Plugin.call`."""
        return self._loop.wait(self.submit(method, params, type=type, **options))

    def submit(
        self, method: str, params: Any = ABSENT, *, type: Any = Any, **options: Unpack[CallOptions]
    ) -> concurrent.futures.Future[Any]:
        """Call a method without waiting; the future has its result. Many calls can be open at a time, without
        a thread each. `on_event` is called in the host's own thread."""
        return self._loop.submit(self.asynchronous.call(method, params, type=type, **options))

    def notify(self, method: str, params: Any = ABSENT, *, urgent: bool = False) -> bool:
        """Send a notification; False when the plugin is not running."""
        return self._loop.run(_call_in_loop(lambda: self.asynchronous.notify(method, params, urgent=urgent)))

    def start(self) -> None:
        """Start the process before the first call and wait until it is ready."""
        self._loop.run(self.asynchronous.start())

    def reload(self) -> None:
        """Start a new generation and wait until it is ready; see `plughost.Plugin.reload`."""
        self._loop.run(self.asynchronous.reload())

    def stop(self) -> None:
        """Stop the plugin, gracefully first. Open calls fail at once."""
        self._loop.run(self.asynchronous.stop())

    def kill(self) -> None:
        """Kill its processes now."""
        self._loop.run(_call_in_loop(self.asynchronous.kill))

    def inspect(self) -> dict[str, Any]:
        """Its spec, state, lifecycle settings and instances as a dict."""
        return self._loop.run(_call_in_loop(self.asynchronous.inspect))


class Subscription:
    """A queue of events in the order they happened: iterate over it, or `get` with a timeout."""

    def __init__(self, queue: EventQueue, loop: LoopThread) -> None:
        self._queue = queue
        self._loop = loop

    def get(self, timeout: float | None = None) -> Event | None:
        """The next event; None once the host is closed. TimeoutError when none comes in time."""
        if timeout is not None:
            check_seconds("timeout", timeout)
        try:
            return self._loop.run(_wait_for(self._queue, timeout))
        except Stopped:
            return self._queue.take()  # no event is added any more

    def __iter__(self) -> Iterator[Event]:
        while (event := self.get()) is not None:
            yield event

    def close(self) -> None:
        """End the subscription: iteration ends once the queue is empty."""
        try:
            self._loop.run(_call_in_loop(self._queue.close))
        except Stopped:
            pass  # its host is closed, and so is the queue

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class Host:
    """Runs plugins, for programs without an event loop. The end of `with`, or of the program, stops all of
    them. The parameters are those of `plughost.Host`."""

    def __init__(
        self,
        *,
        clock: Clock | None = None,
        launcher: tuple[str, ...] = (),
        launch_mode: str = "auto",
        tap: Tap | None = None,
        cgroup: str | None = None,
        max_grace: float | None = None,
    ) -> None:
        """`tap` is called in the host's own thread."""
        self._loop = LoopThread()
        self._host = self._loop.run(
            _call_in_loop(
                lambda: asynchronous.Host(
                    clock=clock,
                    launcher=launcher,
                    launch_mode=launch_mode,
                    tap=tap,
                    cgroup=cgroup,
                    max_grace=max_grace,
                )
            )
        )
        # Also when the host is garbage collected, and at the end of a program that did not close it.
        self._close_host = weakref.finalize(self, _close_host, self._loop, self._host)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def plugins(self) -> Mapping[str, Plugin]:
        """All plugins of this host by name."""
        return {name: Plugin(plugin, self._loop) for name, plugin in self._host.plugins.items()}

    def add(
        self,
        target: PluginSpec | str | os.PathLike[str],
        *,
        grants: Sequence[str] | None = None,
        start: bool = True,
        keep: bool = False,
    ) -> Plugin:
        """Add a plugin by its spec or its folder, and check all of it. Eager plugins start, unless
        `start=False`; the others start with their first call.

        A plugin that fails the checks is not added, and neither is an eager one that does not start. With
        `keep`, a plugin for which the machine has no room now is added: `inspect` says why, and each start
        tries again.
        """
        added = self._host.add(target, grants=grants, start=start, keep=keep)
        return Plugin(self._loop.run(added), self._loop)

    def remove(self, name: str) -> None:
        """Stop a plugin and, once its processes are gone, remove it from the host."""
        self._loop.run(self._host.remove(name))

    def provide(self, name: str, service: Service) -> None:
        """Register a service for plugins, an ordinary function; it replaces the service of that name.

        An object with methods, such as the services of ainb, is passed to the asynchronous host as it is.
        """
        loop = self._loop

        async def serve(caller: Caller, params: Any) -> Any:
            if not isinstance(caller.plugin, asynchronous.Plugin):
                raise Stopped("the host has ended")
            return await in_daemon_thread(service, Plugin(caller.plugin, loop), params)

        registered = serve if inspect.isroutine(service) else service
        self._loop.run(_call_in_loop(lambda: self._host.provide(name, registered)))

    def events(self, limit: int = 10_000, only: EventKind = Event) -> Subscription:
        """Subscribe to the events of all plugins from now on, or to those of the class or classes `only`. The
        queue holds at most `limit` events; a slow observer loses the oldest."""
        return Subscription(self._loop.run(_call_in_loop(lambda: self._host.events(limit, only))), self._loop)

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine of the asynchronous API, such as a method of a typed client, and return its
        result."""
        return self._loop.run(work)

    def close(self) -> None:
        """Stop every plugin gracefully; Ctrl-C kills them."""
        self._close_host()


async def _wait_for(queue: EventQueue, timeout: float | None) -> Event | None:
    return await asyncio.wait_for(queue.get(), timeout)


async def _call_in_loop(function: Callable[[], T]) -> T:
    """Call a function as a coroutine: in the loop's thread, where all code of the host runs."""
    return function()


def _close_host(loop: LoopThread, host: asynchronous.Host) -> None:
    loop.close(host.close())
