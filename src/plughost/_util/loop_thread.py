"""LoopThread: an event loop in a thread of its own, for programs without one; and daemon threads for work."""

from __future__ import annotations

import asyncio
import concurrent.futures
import os
import threading
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from plughost.errors import Stopped

T = TypeVar("T")


class LoopThread:
    """An event loop in a daemon thread, and functions to run coroutines in it from other threads."""

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
            started.set_exception(error)  # the loop was not created: no descriptors are left for one

    async def _serve(self, started: concurrent.futures.Future[asyncio.AbstractEventLoop]) -> None:
        self._end_requested = asyncio.Event()
        started.set_result(asyncio.get_running_loop())
        await self._end_requested.wait()

    def submit(self, work: Coroutine[Any, Any, T]) -> concurrent.futures.Future[T]:
        """Start a coroutine in the loop; Stopped or RuntimeError when the loop cannot run it."""
        problem = self._problem()
        if problem is not None:
            work.close()
            raise problem
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine in the loop and wait for its result."""
        return self.wait(self.submit(work))

    def wait(self, future: concurrent.futures.Future[T]) -> T:
        """Wait for a result. Ctrl-C cancels the work."""
        try:
            return future.result()
        except concurrent.futures.CancelledError:
            raise Stopped("this host was closed in the meantime") from None
        except BaseException:  # Ctrl-C cancels the work; work that has failed is done, and stays as it is
            future.cancel()
            raise

    def _problem(self) -> Exception | None:
        """Why work that is submitted now would never be done; None when it would."""
        if self.is_forked:
            hint = "create a new host in this process"
            return Stopped("this host belongs to the parent process", hint=hint)
        if self.is_own_thread:
            return RuntimeError("the host's own thread cannot wait for itself: use the async API here")
        if self._closed:
            return Stopped("this host is closed")
        return None

    @property
    def is_forked(self) -> bool:
        """Whether this is a forked child, which has none of its parent's threads."""
        return os.getpid() != self._pid

    @property
    def is_own_thread(self) -> bool:
        """Whether the current thread is the one that runs the loop."""
        return threading.get_ident() == self._thread.ident

    def close(self, last: Coroutine[Any, Any, None]) -> None:
        """Run the coroutine `last`, then end the loop and its thread."""
        if self._closed or self.is_forked:
            last.close()
            return
        if self.is_own_thread:  # the garbage collector may run this in any thread
            self._closed = True
            asyncio.ensure_future(last).add_done_callback(lambda _: self._end_requested.set())
            return
        try:
            self.run(last)
        finally:
            self._closed = True
            self._loop.call_soon_threadsafe(self._end_requested.set)
            self._thread.join()


async def in_daemon_thread(function: Callable[..., T], *arguments: Any) -> T:
    """Call a function in a daemon thread, so that one that never returns does not keep the host open."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()

    def set_outcome(setter: Callable[[Any], None], value: Any) -> None:
        if not done.done():
            setter(value)

    def work() -> None:
        try:
            result = function(*arguments)
        except BaseException as error:
            outcome: tuple[Callable[[Any], None], Any] = (done.set_exception, error)
        else:
            outcome = (done.set_result, result)
        try:
            loop.call_soon_threadsafe(set_outcome, *outcome)
        except RuntimeError:
            pass  # the host was closed meanwhile

    threading.Thread(target=work, name="plughost-service", daemon=True).start()
    return await done
