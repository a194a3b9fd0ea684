"""One request under way: its handler, and how it is cancelled."""

from __future__ import annotations

import threading

from plughost_sdk.handlers import log
from plughost_sdk.message import NotJson, encode
from plughost_sdk.vai import outcome
from plughost_sdk.vai.context import Context

TYPE_CHECKING = False
if TYPE_CHECKING:
    import asyncio
    from collections.abc import Awaitable, Callable
    from typing import Any

    from plughost_sdk.vai.export import Export


class Loop:
    """The event loop of all coroutines, in a thread of its own, made for the first of them."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def get(self) -> asyncio.AbstractEventLoop:
        with self._guard:
            if self._loop is None:
                import asyncio

                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
                self._thread.start()
            return self._loop

    def close(self) -> None:
        if self._loop is not None and self._thread is not None:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(1.0)
            if not self._thread.is_alive():  # a coroutine that blocks goes with the process
                self._loop.close()


class Call:
    thread: threading.Thread

    def __init__(
        self, export: Export, body: dict[str, Any], loop: Loop, emit: Callable[[dict[str, Any]], None]
    ) -> None:
        self._export = export
        self._body = body
        self._loop = loop
        self._context: Context | None = None
        self._task: asyncio.Task[Any] | None = None
        self._reason: str | None = None
        self._guard = threading.Lock()
        self._emit = emit

    def cancel(self, reason: str) -> None:
        with self._guard:
            self._reason = self._reason or reason
            if self._context is not None:
                self._context._cancel(self._reason)
            if self._task is not None:
                self._loop.get().call_soon_threadsafe(self._task.cancel)

    def run(self) -> dict[str, Any]:
        """The response's body. However it ends after its cancel, it was cancelled: nobody waits for more."""
        try:
            body = self._handled()
            encode(body)
        except NotJson as error:
            body = self.failed(f"{self._export.id} sent something that JSON cannot represent: {error}")
        except outcome.Failed as error:
            body = self.failed(str(error), retryable=isinstance(error, outcome.Retryable))
        except BaseException as error:  # an exit or a cancelled coroutine ends this call, and nothing else
            if self._reason is None:
                self._log()
            body = self.failed(f"{type(error).__name__}: {error}")
        return body if self._reason is None else outcome.CANCELLED

    def failed(self, words: str, *, retryable: bool = False) -> dict[str, Any]:
        return outcome.failed(self._export.kind, self._redacted(words), retryable=retryable)

    def _handled(self) -> dict[str, Any]:
        context = Context(self._body, self._emit)
        with self._guard:
            self._context = context
            if self._reason is not None:
                context._cancel(self._reason)
        value = self._export.call(self._body, context)
        if hasattr(value, "__await__"):
            value = self._awaited(value)
        return outcome.succeeded(self._export.kind, self._export.as_json(value))

    def _awaited(self, awaitable: Awaitable[Any]) -> Any:
        import asyncio

        async def finish() -> Any:
            with self._guard:
                self._task = asyncio.current_task()
                if self._reason is not None and self._task is not None:
                    self._task.cancel()
            return await awaitable

        return asyncio.run_coroutine_threadsafe(finish(), self._loop.get()).result()

    def _redacted(self, words: str) -> str:
        return words if self._context is None else self._context.redact(words)

    def _log(self) -> None:
        import traceback

        log(self._redacted(traceback.format_exc()))
