"""ainb in its own words: frames, keys, events and command lines of one plugin."""

from __future__ import annotations

import asyncio
import itertools
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, Protocol

import msgspec

from plughost.clock import Clock, done_within
from plughost.contracts.ainb.messages import (
    CliDispatchParams,
    CliDispatchResult,
    HandleEventParams,
    HandleKeyParams,
    HandleMouseParams,
    KeyEvent,
    MouseEvent,
    RenderParams,
    RenderResult,
    Viewport,
)
from plughost.errors import InvalidSpec, Timeout
from plughost.wire.base64_bytes import decode_plain
from plughost.wire.ledger import FOREVER

RENDER_DEADLINE = 2.0

_keys = itertools.count()
"""The generation of a key: one count for all plugins."""
_mice = itertools.count()


class AinbPlugin(Protocol):
    name: str

    @property
    def clock(self) -> Clock: ...

    async def call(
        self,
        method: str,
        params: Any = ...,
        *,
        timeout: float | None = ...,
        type: Any = ...,
        priority: bool = ...,
    ) -> Any: ...

    def notify(self, method: str, params: Any = ..., *, urgent: bool = ...) -> bool: ...

    def pin(self, reason: object) -> None: ...

    def unpin(self, reason: object) -> None: ...


class CliResult(NamedTuple):
    stdout: bytes
    stderr: bytes
    exit_code: int


class AinbScreen:
    """One frame in flight at a time, whoever asks; those who ask meanwhile share the next one."""

    def __init__(self, plugin: AinbPlugin) -> None:
        self._plugin = weakref.proxy(plugin)
        self._drawing: asyncio.Task[None] | None = None
        self._next: asyncio.Future[RenderResult] | None = None
        self._viewport = Viewport(0, 0)
        self.unresponsive = False

    async def render(self, viewport: Viewport, deadline: float) -> RenderResult:
        self._viewport = viewport  # the newest counts
        if self._next is None:
            self._next = asyncio.get_running_loop().create_future()
            self._next.add_done_callback(lambda frame: frame.cancelled() or frame.exception())
        frame = self._next
        if self._drawing is None:
            self._draw_next()
        if not await done_within(self._plugin.clock, deadline, frame):
            self.unresponsive = True
            raise Timeout(f"no frame within {deadline:g} s", plugin=self._plugin.name)
        return frame.result()

    def _draw_next(self) -> None:
        frame, self._next = self._next, None
        if frame is not None:
            self._drawing = asyncio.ensure_future(self._draw(frame))

    async def _draw(self, frame: asyncio.Future[RenderResult]) -> None:
        try:
            # No timeout here: a frame that comes late ends the wait for it, and the next may be asked for.
            params = RenderParams(self._viewport)
            result = await self._plugin.call(
                "plugin/render", params, timeout=FOREVER, type=RenderResult, priority=True
            )
            frame.set_result(result)
        except Exception as error:
            frame.set_exception(error)
        finally:
            frame.cancel()
            self.unresponsive = False
            self._drawing = None
            self._draw_next()


def _check(value: KeyEvent | MouseEvent | Viewport) -> None:
    """Numbers are checked where they are read; what we send should never fail there."""
    try:
        msgspec.convert(msgspec.to_builtins(value), type(value))
    except msgspec.ValidationError as error:
        raise InvalidSpec(f"not to be sent: {error}") from error


_screens: weakref.WeakKeyDictionary[AinbPlugin, AinbScreen] = weakref.WeakKeyDictionary()


class Ainb:
    """A typed view of an ainb plugin. Views of one plugin share its screen."""

    def __init__(self, plugin: AinbPlugin) -> None:
        self._plugin = plugin
        self._screen = _screens.setdefault(plugin, AinbScreen(plugin))

    async def render(self, width: int, height: int, *, deadline: float = RENDER_DEADLINE) -> RenderResult:
        """A frame; Timeout when none comes in time: the plugin counts as unresponsive until one does."""
        viewport = Viewport(width, height)
        _check(viewport)
        return await self._screen.render(viewport, deadline)

    @property
    def unresponsive(self) -> bool:
        return self._screen.unresponsive

    @contextmanager
    def shown(self) -> Iterator[None]:
        """While its screen is shown it is not ended for being idle."""
        reason = object()
        self._plugin.pin(reason)
        try:
            yield
        finally:
            self._plugin.unpin(reason)

    def key(self, screen_id: str, key: KeyEvent) -> bool:
        """Forward a key, ahead of everything that waits; False when the plugin is not running."""
        _check(key)
        params = HandleKeyParams(screen_id, key, next(_keys))
        return self._plugin.notify("plugin/handle_key", params, urgent=True)

    def mouse(self, screen_id: str, mouse: MouseEvent) -> bool:
        """Forward what the mouse does, like a key."""
        _check(mouse)
        params = HandleMouseParams(screen_id, mouse, next(_mice))
        return self._plugin.notify("plugin/handle_mouse", params, urgent=True)

    def event(self, topic: str, payload: bytes) -> bool:
        """Tell it of an event; False when it is not running."""
        return self._plugin.notify("plugin/handle_event", HandleEventParams(topic, payload))

    async def cli(self, namespace: str, argv: Sequence[str], *, timeout: float = FOREVER) -> CliResult:
        """Run a command line of one of its namespaces."""
        params = CliDispatchParams(namespace, list(argv))
        result: CliDispatchResult = await self._plugin.call(
            "plugin/cli_dispatch", params, timeout=timeout, type=CliDispatchResult
        )
        return CliResult(decode_plain(result.stdout), decode_plain(result.stderr), result.exit_code)
