"""Actions that a plugin may invoke: the embedding program's own, and those that other plugins provide."""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Awaitable, Callable
from typing import Protocol

import msgspec

from plughost._util.text import WHOLE, bounded
from plughost.clock import done_within
from plughost.engine.caller import Caller
from plughost.errors import Denied, InvalidSpec, PluginError, Timeout
from plughost.permissions import capabilities
from plughost.services.plugin_lookup import PluginLookup, offering
from plughost.wire.base64_bytes import Octets, decode_plain
from plughost.wire.ledger import FOREVER

LONGEST_MS = 10**12

Handler = Callable[[Caller, bytes], Awaitable[bytes]]


class Invoke(Protocol):
    action: str
    payload: Octets
    timeout_ms: int


class HostAction(msgspec.Struct, frozen=True):
    handler: Handler
    spawns: bool


class ActionAnswer(msgspec.Struct):
    payload: Octets


class Actions:
    """A registered action wins over a plugin's of the same name."""

    def __init__(self, directory: PluginLookup) -> None:
        self._directory = weakref.ref(directory)
        self._registered: dict[str, HostAction] = {}

    def register(self, name: str, handler: Handler, *, spawns: bool = False) -> None:
        """Offer an action; one that runs a child for the plugin (`spawns`) needs spawn_subprocess."""
        self._registered[name] = HostAction(handler, spawns)

    async def invoke(self, caller: Caller, params: Invoke) -> bytes:
        """Its answer. A result that comes after the caller's own time is nobody's."""
        work = asyncio.ensure_future(self._work(caller, params))
        limit = min(params.timeout_ms, LONGEST_MS) / 1000 if params.timeout_ms else FOREVER
        try:
            if not await done_within(caller.plugin.clock, limit, work):
                raise Timeout(f"action timed out: {bounded(params.action, WHOLE)}")
            return work.result()
        finally:
            work.cancel()

    async def _work(self, caller: Caller, params: Invoke) -> bytes:
        action = self._registered.get(params.action)
        if action is None:
            return await self._by_plugin(caller, params)
        if action.spawns and not capabilities.allows(caller.plugin.capabilities, "spawn_subprocess"):
            raise Denied("capability denied: spawn_subprocess")
        return await action.handler(caller, decode_plain(params.payload))

    async def _by_plugin(self, caller: Caller, params: Invoke) -> bytes:
        directory = self._directory()
        found = offering(directory, "cli_namespaces", params.action) if directory is not None else None
        if found is None:
            raise InvalidSpec(f"unknown action: {bounded(params.action, WHOLE)}")
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
                "host/action/invoke", request, timeout=FOREVER, type=ActionAnswer
            )
        except Timeout as error:  # of its start: not the caller's own
            raise PluginError(f"action failed: {error.message}") from error
        return decode_plain(answer.payload)
