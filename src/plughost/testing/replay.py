"""Replays recorded traffic against a real peer: as a fake plugin or as a fake host."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path

from plughost import config
from plughost.contracts.registry import get_contract
from plughost.contracts.resolve import check_runnable
from plughost.engine.io.channel import CHUNK, PipeChannel
from plughost.engine.reporter import describe_exit
from plughost.errors import LaunchFailed
from plughost.sandbox.unhosted import Start, confine_unhosted
from plughost.spec import PluginSpec
from plughost.testing.player import Different, Player
from plughost.testing.traffic import Traffic

DEFAULT_TIMEOUT = 10.0
"""Seconds for a plugin to send what was recorded, and as long again to exit."""


def play_plugin(
    traffic: Traffic,
    receive: int = 0,
    send: int = 1,
    *,
    shown: Callable[[bytes], object] | None = None,
) -> str | None:
    """Acts as the recorded plugin on two descriptors. Returns the mismatch; None when the host has closed the
    pipe. With `shown`, what it says goes there instead of to `send`: for a terminal, not for a host."""
    player = Player(traffic, "in")
    data = b""
    try:
        while True:
            to_send = player.hear(data)
            if shown is not None:
                shown(to_send)
                to_send = b""
            while to_send:
                to_send = to_send[os.write(send, to_send) :]
            data = os.read(receive, CHUNK)
            if not data:
                return None
    except BrokenPipeError:
        return None
    except Different as different:
        return f"the host did not send what was recorded: {different}"


async def play_host(
    traffic: Traffic, target: PluginSpec | str | Path, *, patience: float = DEFAULT_TIMEOUT
) -> str | None:
    """Acts as the recorded host: starts a plugin, of a spec or a folder, in the sandbox that a host would
    use. Returns the mismatch; None when the plugin sends what was recorded."""
    spec = target if isinstance(target, PluginSpec) else config.load_folder(Path(target))
    resolved = get_contract(spec.contract).resolve(spec)
    check_runnable(spec, resolved)
    async with confine_unhosted(spec, resolved) as start:
        return await _FakeHost(Player(traffic, "out"), start).play(patience)


class _FakeHost:
    """Connects a process with a player."""

    def __init__(self, player: Player, start: Start) -> None:
        self._player = player
        loop = asyncio.get_running_loop()
        self._problem: str | None = None
        self._failure: LaunchFailed | None = None
        self._finished = asyncio.Event()
        self._process_gone = asyncio.Event()
        self._process = start(self._executed, self._exited)
        self._channel = PipeChannel(
            loop,
            self._process.stdout,
            self._process.stdin,
            on_data=self._receive,
            on_end=lambda: None,
            on_broken=lambda error: None,
            on_room=lambda: None,
        )

    async def play(self, timeout: float) -> str | None:
        try:
            if not await _within(timeout, self._finished):
                return f"the plugin did not send within {timeout:g} s: {self._player.expected}"
            self._channel.close_write()
            if not await _within(timeout, self._process_gone):
                return f"the plugin did not end within {timeout:g} s of the end of its stdin"
        finally:
            self._process.kill()
            await asyncio.shield(_within(timeout, self._process_gone))
            self._channel.close()
            self._process.release()
        if self._failure is not None:
            raise self._failure
        return self._problem

    def _executed(self, failure: LaunchFailed | None) -> None:
        self._failure = failure
        if failure is None:
            self._channel.resume()
            self._receive(b"")

    def _exited(self) -> None:
        self._channel.drain()
        if self._player.expected is not None:
            words = (
                f", its last line on stderr: {self._process.stderr.text(1)}"
                if self._process.stderr.text()
                else ""
            )
            how = describe_exit(self._process.exit_status).removeprefix("it ")
            self._fail(f"the plugin {how} before it sent: {self._player.expected}{words}")
        self._finished.set()
        self._process_gone.set()

    def _receive(self, data: bytes) -> None:
        try:
            to_send = self._player.hear(data)
        except Different as different:
            self._fail(f"the plugin did not send what was recorded: {different}")
            return
        if to_send:
            self._channel.write(to_send)
        if self._player.expected is None:
            self._finished.set()

    def _fail(self, problem: str) -> None:
        self._problem = self._problem or problem
        self._finished.set()


async def _within(seconds: float, event: asyncio.Event) -> bool:
    try:
        await asyncio.wait_for(event.wait(), seconds)
    except TimeoutError:
        return False
    return True
