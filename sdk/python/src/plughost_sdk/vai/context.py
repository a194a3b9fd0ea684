"""What a handler knows of its invocation: who asks, until when, with what."""

from __future__ import annotations

import threading
from contextlib import contextmanager

from plughost_sdk.handlers import log_failure
from plughost_sdk.vai.gateway import Gateway

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

HIDDEN = "[secret]"


class Cancelled(Exception):
    """The host wants the call no more; its words are the reason."""


class Secrets:
    """The export's secret slots. Printed, it shows their names only."""

    def __init__(self, values: dict[str, str]) -> None:
        self.__values = values

    def __getitem__(self, slot: str) -> str:
        try:
            return self.__values[slot]
        except KeyError:
            told = f"the host sent no secret for the slot {slot!r}"
            raise KeyError(f"{told}: declare it with secrets=[{slot!r}], and map it in the binding") from None

    def get(self, slot: str, default: str | None = None) -> str | None:
        return self.__values.get(slot, default)

    def __iter__(self) -> Iterator[str]:
        return iter(self.__values)

    def __len__(self) -> int:
        return len(self.__values)

    def __repr__(self) -> str:
        return f"Secrets({', '.join(sorted(self.__values))})"

    def __reduce__(self) -> Any:
        raise TypeError("secrets cannot be pickled")

    def redact(self, text: str) -> str:
        """The text without any of them; the longest go first, since one may be part of another."""
        for value in sorted(filter(None, self.__values.values()), key=len, reverse=True):
            text = text.replace(value, HIDDEN)
        return text


class Context:
    """One invocation. Printed, it shows no secret and no token."""

    def __init__(self, body: dict[str, Any], emit: Callable[[dict[str, Any]], None]) -> None:
        told = body["context"]
        self.invocation_id: str | None = told.get("invocation_id")
        self.trace_id: str | None = told.get("trace_id")
        self.org_id: str | None = told.get("org_id")
        self.project_id: str | None = told.get("project_id")
        self.session_id: str | None = told.get("session_id")
        self.chain_id: str | None = told.get("chain_id")
        self.run_id: str | None = told.get("run_id")
        self.scratch_dir: str | None = told.get("scratch_dir")
        """A folder of this invocation alone; None if the export has no scratch."""
        self.deadline_at: str | None = told.get("deadline_at")
        """RFC 3339; `remaining()` is what is left of it."""
        self.tool_execution_id: str | None = body.get("tool_execution_id")
        self.delivery_id: str | None = body.get("delivery_id")
        """The same at every attempt to deliver one event: what a hook has done, it does not do again."""
        self.attempt: int = body.get("attempt", 1)
        self.config: Any = body.get("config") or {}
        """The binding's; an instance of the class that the decorator's `config=` names."""
        self.secrets = Secrets(body.get("secrets") or {})
        self.gateway = Gateway(told.get("gateway") or {}, self.remaining, self.on_cancel)
        self.reason: str | None = None
        """Why it was cancelled."""
        self._stopped = threading.Event()
        self._endings: list[Callable[[], object]] = []
        self._guard = threading.Lock()
        self._emit = emit

    def remaining(self) -> float | None:
        """Seconds until the deadline, none below 0; None without a deadline."""
        if self.deadline_at is None:
            return None
        from datetime import UTC, datetime

        left = datetime.fromisoformat(self.deadline_at) - datetime.now(UTC)
        return max(0.0, left.total_seconds())

    def progress(self, message: str, **more: Any) -> None:
        """How far it is, for whoever watches."""
        self.event({"type": "progress", "message": message, **more})

    def event(self, event: dict[str, Any]) -> None:
        """Something that happened, with a `type`; only before the handler has ended."""
        if not isinstance(event, dict) or not isinstance(event.get("type"), str):
            raise TypeError(f"an event has a type: {{'type': 'progress', …}}, not {event!r:.60}")
        self._emit(event)

    @property
    def cancelled(self) -> bool:
        """Whether the host wants the call no more; a coroutine gets asyncio.CancelledError instead."""
        return self._stopped.is_set()

    def check(self) -> None:
        """Raise `Cancelled` once the call is."""
        if self._stopped.is_set():
            raise Cancelled(self.reason)

    def wait(self, seconds: float) -> bool:
        """Sleep, but no longer than until it is cancelled; then it is True."""
        return self._stopped.wait(seconds)

    @contextmanager
    def on_cancel(self, end: Callable[[], object]) -> Iterator[None]:
        """`end` ends what blocks, such as a process: it is called if the call is cancelled meanwhile."""
        with self._guard:
            self.check()
            self._endings.append(end)
        try:
            yield
        finally:
            with self._guard:
                self._endings.remove(end)

    def redact(self, text: str) -> str:
        """The text without secrets and without the token."""
        return self.gateway.redact(self.secrets.redact(text))

    def _cancel(self, reason: str) -> None:
        with self._guard:
            self.reason = reason
            self._stopped.set()
            for end in self._endings:
                try:
                    end()
                except Exception:  # it must not keep the reader from going on
                    log_failure()

    def __repr__(self) -> str:
        return f"Context({self.invocation_id}, {self.secrets!r}, {self.gateway!r})"
