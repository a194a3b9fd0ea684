"""Recorded traffic against a real other side: as a fake plugin, as a fake host."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path

from plughost import config
from plughost.base.errors import LaunchFailed
from plughost.contracts.contract import PluginSpec, check_runnable, contract
from plughost.runtime.channel import CHUNK, PipeChannel
from plughost.runtime.witness import story
from plughost.sandbox.raw import Start, confined
from plughost.testkit.player import Different, Player
from plughost.testkit.traffic import Traffic

PATIENCE = 10.0
"""For a plugin to say what it said then, and as long again to end."""


def play_plugin(
    traffic: Traffic,
    receive: int = 0,
    send: int = 1,
    *,
    shown: Callable[[bytes], object] | None = None,
) -> str | None:
    """Why it could not go on; None when the host has ended it. `shown` takes what it says instead of `send`,
    where that is not for a host but for somebody's eyes."""
    player = Player(traffic, "in")
    data = b""
    try:
        while True:
            said = player.hear(data)
            if shown is not None:
                shown(said)
                said = b""
            while said:
                said = said[os.write(send, said) :]
            data = os.read(receive, CHUNK)
            if not data:
                return None
    except BrokenPipeError:
        return None
    except Different as different:
        return f"the host does not say what was recorded: {different}"


async def play_host(
    traffic: Traffic, target: PluginSpec | str | Path, *, patience: float = PATIENCE
) -> str | None:
    """Start a plugin, of a spec or a folder, confined as a host would confine it, and tell it what it was
    told then. What it says else; None when it says the same."""
    spec = target if isinstance(target, PluginSpec) else config.of_folder(Path(target))
    binding = contract(spec.contract).bind(spec)
    check_runnable(spec, binding)
    async with confined(spec, binding) as start:
        return await _FakeHost(Player(traffic, "out"), start).play(patience)


class _FakeHost:
    """A process, a channel, and a player between them."""

    def __init__(self, player: Player, start: Start) -> None:
        self._player = player
        loop = asyncio.get_running_loop()
        self._problem: str | None = None
        self._failure: LaunchFailed | None = None
        self._over = asyncio.Event()
        self._gone = asyncio.Event()
        self._process = start(self._executed, self._exited)
        self._channel = PipeChannel(
            loop,
            self._process.stdout,
            self._process.stdin,
            on_data=self._hear,
            on_end=lambda: None,
            on_broken=lambda error: None,
            on_room=lambda: None,
        )

    async def play(self, patience: float) -> str | None:
        try:
            if not await _within(patience, self._over):
                return f"the plugin has not said within {patience:g} s: {self._player.expected}"
            self._channel.close_write()
            if not await _within(patience, self._gone):
                return f"the plugin did not end within {patience:g} s of the end of its stdin"
        finally:
            self._process.kill()
            await asyncio.shield(_within(patience, self._gone))
            self._channel.close()
            self._process.release()
        if self._failure is not None:
            raise self._failure
        return self._problem

    def _executed(self, failure: LaunchFailed | None) -> None:
        self._failure = failure
        if failure is None:
            self._channel.resume()
            self._hear(b"")

    def _exited(self) -> None:
        self._channel.drain()
        if self._player.expected is not None:
            words = f", its last words: {self._process.stderr.text(1)}" if self._process.stderr.text() else ""
            how = story(self._process.exit_status).removeprefix("it ")
            self._settle(f"the plugin {how} before it said: {self._player.expected}{words}")
        self._over.set()
        self._gone.set()

    def _hear(self, data: bytes) -> None:
        try:
            said = self._player.hear(data)
        except Different as different:
            self._settle(f"the plugin does not say what was recorded: {different}")
            return
        if said:
            self._channel.write(said)
        if self._player.expected is None:
            self._over.set()

    def _settle(self, problem: str) -> None:
        self._problem = self._problem or problem
        self._over.set()


async def _within(seconds: float, event: asyncio.Event) -> bool:
    try:
        await asyncio.wait_for(event.wait(), seconds)
    except TimeoutError:
        return False
    return True
