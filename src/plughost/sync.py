"""The same host for programs without an event loop: a thread of its own runs one.

with plughost.sync.Host() as host:
    echo = host.add("plugins/echo-mcptest")
    print(echo.call("echo", {"text": "hi"}, timeout=2))

Any thread may use it. Ctrl-C in a waiting call takes the call back.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import inspect
import os
import threading
import weakref
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, Self, TypeVar, overload

from plughost import host as asynchronous
from plughost.clock import Clock
from plughost.engine.caller import Caller
from plughost.engine.progress import OnEvent
from plughost.engine.tap import Tap
from plughost.errors import Stopped
from plughost.events import Event
from plughost.events import Subscription as EventQueue
from plughost.spec import PluginSpec
from plughost.wire.messages import ABSENT

T = TypeVar("T")

Service = Callable[["Plugin", Any], Any]
"""Answers what plugins ask of the host: the plugin that asks, and its params. Runs in a thread of its own."""


class Loop:
    """An event loop in a thread, and the way into it."""

    def __init__(self) -> None:
        self._pid = os.getpid()
        self._closed = False
        started: concurrent.futures.Future[asyncio.AbstractEventLoop] = concurrent.futures.Future()
        # A daemon: a program that forgot its host still ends, and the host ends with it.
        self._thread = threading.Thread(target=self._run, args=(started,), name="plughost", daemon=True)
        self._thread.start()
        try:
            self._loop = started.result()
        except OSError:
            self._thread.join()
            raise

    def _run(self, started: concurrent.futures.Future[asyncio.AbstractEventLoop]) -> None:
        try:
            asyncio.run(self._serve(started))
        except BaseException as error:
            if started.done():
                raise
            started.set_exception(error)  # no loop could be made, for want of descriptors for one

    async def _serve(self, started: concurrent.futures.Future[asyncio.AbstractEventLoop]) -> None:
        self._asked_to_end = asyncio.Event()
        started.set_result(asyncio.get_running_loop())
        await self._asked_to_end.wait()

    def submit(self, work: Coroutine[Any, Any, T]) -> concurrent.futures.Future[T]:
        problem = self._problem()
        if problem is not None:
            work.close()
            raise problem
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self.wait(self.submit(work))

    def wait(self, future: concurrent.futures.Future[T]) -> T:
        try:
            return future.result()
        except concurrent.futures.CancelledError:
            raise Stopped("this host was closed meanwhile") from None
        except (
            BaseException
        ):  # Ctrl-C takes back what is waited for; of what has failed, nothing is left to take
            future.cancel()
            raise

    def _problem(self) -> Exception | None:
        """Why nothing would ever come of it."""
        if self.is_foreign:
            hint = "make a host of your own"
            return Stopped("this host belongs to the process that forked this one", hint=hint)
        if self.is_here:
            return RuntimeError("the host's own thread cannot wait for itself: use the async API here")
        if self._closed:
            return Stopped("this host is closed")
        return None

    @property
    def is_foreign(self) -> bool:
        """A fork has none of its parent's threads."""
        return os.getpid() != self._pid

    @property
    def is_here(self) -> bool:
        return threading.get_ident() == self._thread.ident

    def close(self, last: Coroutine[Any, Any, None]) -> None:
        """Run `last`, then end."""
        if self._closed or self.is_foreign:
            last.close()
            return
        if self.is_here:  # the garbage collector may come by in any thread
            self._closed = True
            asyncio.ensure_future(last).add_done_callback(lambda _: self._asked_to_end.set())
            return
        try:
            self.run(last)
        finally:
            self._closed = True
            self._loop.call_soon_threadsafe(self._asked_to_end.set)
            self._thread.join()


class Plugin:
    """A name that calls go to."""

    def __init__(self, plugin: asynchronous.Plugin, loop: Loop) -> None:
        self.asynchronous = plugin
        """The plugin itself, for typed views: `host.run(Mcptest(plugin.asynchronous).request("ping"))`."""
        self.name = plugin.name
        self.contract = plugin.contract
        self._loop = loop

    def __repr__(self) -> str:
        return repr(self.asynchronous)

    @property
    def spec(self) -> PluginSpec:
        return self.asynchronous.spec

    @property
    def state(self) -> str:
        return self.asynchronous.state

    @property
    def generation(self) -> int:
        return self.asynchronous.generation

    @overload
    def call(
        self,
        method: str,
        params: Any = ...,
        *,
        timeout: float | None = ...,
        context: Mapping[str, str] | None = ...,
        type: type[T],
        on_event: OnEvent | None = ...,
    ) -> T: ...

    @overload
    def call(
        self,
        method: str,
        params: Any = ...,
        *,
        timeout: float | None = ...,
        context: Mapping[str, str] | None = ...,
        type: Any = ...,
        on_event: OnEvent | None = ...,
    ) -> Any: ...

    def call(
        self,
        method: str,
        params: Any = ABSENT,
        *,
        timeout: float | None = None,
        context: Mapping[str, str] | None = None,
        type: Any = Any,
        on_event: OnEvent | None = None,
    ) -> Any:
        """The plugin's result. It raises what the asynchronous `call` raises."""
        call = self.submit(method, params, timeout=timeout, context=context, type=type, on_event=on_event)
        return self._loop.wait(call)

    def submit(
        self,
        method: str,
        params: Any = ABSENT,
        *,
        timeout: float | None = None,
        context: Mapping[str, str] | None = None,
        type: Any = Any,
        on_event: OnEvent | None = None,
    ) -> concurrent.futures.Future[Any]:
        """A call that is not waited for: many may be under way without a thread each. `on_event` is called in
        the host's own thread."""
        call = self.asynchronous.call(
            method, params, timeout=timeout, context=context, type=type, on_event=on_event
        )
        return self._loop.submit(call)

    def notify(self, method: str, params: Any = ABSENT, *, urgent: bool = False) -> bool:
        """Tell the plugin something; False when it is not running."""
        return self._loop.run(_soon(lambda: self.asynchronous.notify(method, params, urgent=urgent)))

    def start(self) -> None:
        self._loop.run(self.asynchronous.start())

    def reload(self) -> None:
        self._loop.run(self.asynchronous.reload())

    def stop(self) -> None:
        self._loop.run(self.asynchronous.stop())

    def kill(self) -> None:
        self._loop.run(_soon(self.asynchronous.kill))

    def inspect(self) -> dict[str, Any]:
        return self._loop.run(_soon(self.asynchronous.inspect))


class Subscription:
    """Events in the order they happened: iterate, or `get` with a timeout."""

    def __init__(self, queue: EventQueue, loop: Loop) -> None:
        self._queue = queue
        self._loop = loop

    def get(self, timeout: float | None = None) -> Event | None:
        """The next event; None once the host is closed. TimeoutError when none comes in time."""
        try:
            return self._loop.run(_wait_for(self._queue, timeout))
        except Stopped:
            return self._queue.take()  # nothing is added any more

    def __iter__(self) -> Iterator[Event]:
        while (event := self.get()) is not None:
            yield event

    def close(self) -> None:
        try:
            self._loop.run(_soon(self._queue.close))
        except Stopped:
            pass  # closed with its host

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class Host:
    """Runs plugins. Leaving it, or the program, ends every one of them."""

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
        self._loop = Loop()
        self._host = self._loop.run(
            _soon(
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
        # Also for a host that nobody holds any more, and at the end of a program that forgot it.
        self._end = weakref.finalize(self, _end, self._loop, self._host)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def plugins(self) -> Mapping[str, Plugin]:
        return {name: Plugin(plugin, self._loop) for name, plugin in self._host.plugins.items()}

    def add(
        self,
        target: PluginSpec | str | os.PathLike[str],
        *,
        grants: Sequence[str] | None = None,
        start: bool = True,
        keep: bool = False,
    ) -> Plugin:
        """A plugin from its spec or its folder. Everything is checked; only eager ones start, if at all.

        What fails is not added, nor is an eager one that does not start. With `keep`, one that the machine
        has no room for now is added: `inspect` says why, and each start tries again.
        """
        added = self._host.add(target, grants=grants, start=start, keep=keep)
        return Plugin(self._loop.run(added), self._loop)

    def remove(self, name: str) -> None:
        self._loop.run(self._host.remove(name))

    def provide(self, name: str, service: Service) -> None:
        """Offer plugins a service, an ordinary function; it replaces the one of that name.

        A service with methods, such as those of ainb, is an object for the asynchronous host and is used
        as it is there.
        """
        loop = self._loop

        async def serve(caller: Caller, params: Any) -> Any:
            return await _in_thread(service, Plugin(caller.plugin, loop), params)

        given = serve if inspect.isroutine(service) else service
        self._loop.run(_soon(lambda: self._host.provide(name, given)))

    def events(self, limit: int = 10_000, only: type[Event] = Event) -> Subscription:
        """Everything that happens to plugins from now on, or one kind of it, in a queue of your own."""
        return Subscription(self._loop.run(_soon(lambda: self._host.events(limit, only))), self._loop)

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Anything else of the async API: typed views, for one."""
        return self._loop.run(work)

    def close(self) -> None:
        """End every plugin, gracefully; on Ctrl-C, by force."""
        self._end()


async def _wait_for(queue: EventQueue, timeout: float | None) -> Event | None:
    return await asyncio.wait_for(queue.get(), timeout)


async def _in_thread(function: Callable[..., T], *arguments: Any) -> T:
    """In a thread that nobody waits for at the end: a function that never returns keeps no host open."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()

    def settle(set_it: Callable[[Any], None], value: Any) -> None:
        if not done.done():
            set_it(value)

    def work() -> None:
        try:
            result = function(*arguments)
        except BaseException as error:
            outcome: tuple[Callable[[Any], None], Any] = (done.set_exception, error)
        else:
            outcome = (done.set_result, result)
        try:
            loop.call_soon_threadsafe(settle, *outcome)
        except RuntimeError:
            pass  # the host was closed meanwhile

    threading.Thread(target=work, name="plughost-service", daemon=True).start()
    return await done


async def _soon(function: Callable[[], T]) -> T:
    """In the loop's thread, where everything of the host's happens."""
    return function()


def _end(loop: Loop, host: asynchronous.Host) -> None:
    loop.close(host.close())
