"""The typed client of an ainb plugin: render frames, forward keys and mouse, send events, run command
lines."""

from __future__ import annotations

import asyncio
import itertools
import time
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, Protocol

import msgspec

from plughost._util.seconds import check_seconds
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
from plughost.contracts.plugin_calls import PluginCalls
from plughost.errors import InvalidSpec, Timeout
from plughost.wire.base64_bytes import decode_plain
from plughost.wire.ledger import FOREVER

RENDER_DEADLINE = 2.0


_keys = itertools.count()
"""The generation counter of key events, shared by all plugins."""
_mice = itertools.count()
"""The generation counter of mouse events, shared by all plugins."""


def _by_clock() -> Iterator[int]:
    """Generations for events that several programs send to one plugin: microseconds since the machine was
    started, so that later events have higher numbers, whoever sent them."""
    last = 0
    while True:
        last = max(last + 1, time.monotonic_ns() // 1000)
        yield last


class AinbPlugin(PluginCalls, Protocol):
    """The part of `plughost.Plugin` that the ainb client uses."""

    name: str

    @property
    def clock(self) -> Clock: ...

    def notify(self, method: str, params: Any = ..., *, urgent: bool = ...) -> bool: ...

    def pin(self, reason: object) -> None: ...

    def unpin(self, reason: object) -> None: ...


class CliResult(NamedTuple):
    """The result of a command line: stdout, stderr and the exit code."""

    stdout: bytes
    stderr: bytes
    exit_code: int


async def run_command_line(
    plugin: PluginCalls, namespace: str, argv: Sequence[str], *, timeout: float = FOREVER
) -> CliResult:
    """Runs a command line in one of the plugin's CLI namespaces."""
    params = CliDispatchParams(namespace, list(argv))
    result: CliDispatchResult = await plugin.call(
        "plugin/cli_dispatch", params, timeout=timeout, type=CliDispatchResult
    )
    return CliResult(decode_plain(result.stdout), decode_plain(result.stderr), result.exit_code)


class AinbScreen:
    """Coalesces render requests: one `plugin/render` is in flight at a time, and callers that wait share the
    next frame."""

    def __init__(self, plugin: AinbPlugin) -> None:
        self._plugin = weakref.proxy(plugin)
        self._drawing: asyncio.Task[None] | None = None
        self._next: asyncio.Future[RenderResult] | None = None
        self._viewport = Viewport(0, 0)
        self.unresponsive = False

    async def render(self, viewport: Viewport, deadline: float) -> RenderResult:
        """Returns the next frame; Timeout after `deadline` seconds. The size of the newest caller counts."""
        self._viewport = viewport  # the newest size counts
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
            # No timeout here: a late frame still ends this request, and only then may the next be sent.
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
    """Validates a value before it is sent: msgspec checks numeric ranges only on decoding, as the plugin
    would."""
    try:
        msgspec.convert(msgspec.to_builtins(value), type(value))
    except msgspec.ValidationError as error:
        raise InvalidSpec(f"it cannot be sent to the plugin: {error}") from error


_screens: weakref.WeakKeyDictionary[AinbPlugin, AinbScreen] = weakref.WeakKeyDictionary()


class Ainb:
    """A typed client of an ainb plugin. All clients of one plugin share its screen."""

    def __init__(self, plugin: AinbPlugin, *, shared: bool = False) -> None:
        """`shared` tells that other programs send key and mouse events to the plugin, too."""
        self._plugin = plugin
        self._keys, self._mice = (_by_clock(), _by_clock()) if shared else (_keys, _mice)
        self._screen = _screens.setdefault(plugin, AinbScreen(plugin))

    async def render(self, width: int, height: int, *, deadline: float = RENDER_DEADLINE) -> RenderResult:
        """Requests a frame. Raises Timeout when none arrives in time; the plugin is unresponsive until one
        does."""
        viewport = Viewport(width, height)
        _check(viewport)
        check_seconds("deadline", deadline)
        return await self._screen.render(viewport, deadline)

    @property
    def unresponsive(self) -> bool:
        """Whether the last frame missed its deadline and has not arrived since."""
        return self._screen.unresponsive

    @contextmanager
    def shown(self) -> Iterator[None]:
        """A context in which the plugin's screen is shown: the plugin is not stopped for being idle."""
        reason = object()
        self._plugin.pin(reason)
        try:
            yield
        finally:
            self._plugin.unpin(reason)

    def key(self, screen_id: str, key: KeyEvent) -> bool:
        """Forwards a key event ahead of everything queued; False when the plugin is not running."""
        _check(key)
        params = HandleKeyParams(screen_id, key, next(self._keys))
        return self._plugin.notify("plugin/handle_key", params, urgent=True)

    def mouse(self, screen_id: str, mouse: MouseEvent) -> bool:
        """Forwards a mouse event ahead of everything queued; False when the plugin is not running."""
        _check(mouse)
        params = HandleMouseParams(screen_id, mouse, next(self._mice))
        return self._plugin.notify("plugin/handle_mouse", params, urgent=True)

    def event(self, topic: str, payload: bytes) -> bool:
        """Sends an event of a topic to the plugin; False when the plugin is not running."""
        return self._plugin.notify("plugin/handle_event", HandleEventParams(topic, payload))

    async def cli(self, namespace: str, argv: Sequence[str], *, timeout: float = FOREVER) -> CliResult:
        """Runs a command line in one of the plugin's CLI namespaces."""
        return await run_command_line(self._plugin, namespace, argv, timeout=timeout)
