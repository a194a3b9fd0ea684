"""A progress bar for work that takes longer than a second, shown on a terminal only."""

from __future__ import annotations

import time
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Self, TextIO

from plughost.cli.ui import output

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

SHOW_AFTER = 1.0


class ProgressBar:
    """A progress callback, called with the bytes done and the total; the bar is erased at the end."""

    def __init__(
        self, label: str, stream: TextIO | None = None, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._label = label
        self._stream = stream or output.errors()
        self._now = now
        self._begin = now()
        self._shown: tuple[Progress, TaskID] | None = None

    def __enter__(self) -> Self:
        return self

    def __call__(self, done: int, total: int) -> None:
        if self._shown is None and self._now() - self._begin >= SHOW_AFTER and self._stream.isatty():
            self._shown = self._show(total)
        if self._shown is not None:
            progress, task = self._shown
            progress.update(task, completed=done, total=total)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._shown is not None:
            self._shown[0].stop()

    def _show(self, total: int) -> tuple[Progress, TaskID]:
        progress = output.progress_bar(self._label, self._stream)
        progress.start()
        return progress, progress.add_task(self._label, total=total)
