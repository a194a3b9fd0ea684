"""The actions service: plugins invoke actions of the embedding program and of other plugins."""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Awaitable, Callable
from typing import Protocol

import msgspec

from plughost._util.text import MAX_VALUE, bounded
from plughost.clock import done_within
from plughost.engine.caller import Caller, CallingPlugin
from plughost.errors import Denied, InvalidSpec, PluginError, Stopped, Timeout
from plughost.permissions import capabilities
from plughost.services.base import BaseService
from plughost.services.plugin_lookup import PluginLookup, find_provider
from plughost.wire.base64_bytes import Octets, decode_plain
from plughost.wire.ledger import FOREVER

MAX_TIMEOUT_MS = 10**12
"""Longer timeouts are cut to this."""

Handler = Callable[[Caller, bytes], Awaitable[bytes]]
"""Performs an action: takes the plugin that asks and its payload, returns the answer."""


class Invoke(Protocol):
    """The params of an invocation."""

    action: str
    payload: Octets
    timeout_ms: int


class HostAction(msgspec.Struct, frozen=True):
    """A registered action of the embedding program."""

    handler: Handler
    spawns: bool


class ActionAnswer(msgspec.Struct):
    """A plugin's answer to an invocation."""

    payload: Octets


class Actions(BaseService):
    """The actions service. A registered action takes precedence over a plugin's action of the same name."""

    def __init__(self, plugins: PluginLookup, *, kind: str, method: str) -> None:
        """An action of a plugin is a name of the kind `kind` that it provides; it is invoked by a call of
        `method`."""
        self._plugins = weakref.ref(plugins)
        self._kind = kind
        self._method = method
        self._registered: dict[str, HostAction] = {}

    def register(self, name: str, handler: Handler, *, spawns: bool = False) -> None:
        """Register an action. If it runs a child process for the plugin (`spawns`), the plugin needs the
        capability spawn_subprocess."""
        self._registered[name] = HostAction(handler, spawns)

    async def invoke(self, caller: Caller, params: Invoke) -> bytes:
        """Invoke an action and return its answer; raises Timeout after the caller's `timeout_ms`."""
        work = asyncio.ensure_future(self._perform(caller, params))
        limit = min(params.timeout_ms, MAX_TIMEOUT_MS) / 1000 if params.timeout_ms else FOREVER
        try:
            if not await done_within(_plugin(caller).clock, limit, work):
                raise Timeout(f"action timed out: {bounded(params.action, MAX_VALUE)}")
            return work.result()
        finally:
            work.cancel()

    async def _perform(self, caller: Caller, params: Invoke) -> bytes:
        action = self._registered.get(params.action)
        if action is None:
            return await self._invoke_plugin(caller, params)
        if action.spawns and not capabilities.allows(_plugin(caller).capabilities, "spawn_subprocess"):
            raise Denied("capability denied: spawn_subprocess")
        return await action.handler(caller, decode_plain(params.payload))

    async def _invoke_plugin(self, caller: Caller, params: Invoke) -> bytes:
        plugins = self._plugins()
        found = find_provider(plugins, self._kind, params.action) if plugins is not None else None
        if found is None:
            raise InvalidSpec(f"unknown action: {bounded(params.action, MAX_VALUE)}")
        name, plugin = found
        if name == caller.name:
            raise InvalidSpec(f"a plugin cannot invoke its own action: {params.action}")
        request = {
            "action": params.action,
            "payload": decode_plain(params.payload),
            "timeout_ms": params.timeout_ms,
        }
        try:
            answer: ActionAnswer = await plugin.call(
                self._method, request, timeout=FOREVER, type=ActionAnswer
            )
        except Timeout as error:  # of the plugin's start: not the caller's timeout
            raise PluginError(f"action failed: {error.message}") from error
        return decode_plain(answer.payload)


def _plugin(caller: Caller) -> CallingPlugin:
    if caller.plugin is None:
        raise Stopped("the host has ended")
    return caller.plugin
