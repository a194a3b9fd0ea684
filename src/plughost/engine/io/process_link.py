"""ProcessLink: a plugin process and the pipes to it, as a Link."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable

from plughost.engine.io.channel import PipeChannel, Send
from plughost.engine.io.process import Process
from plughost.engine.io.stderr import StderrTail
from plughost.engine.launcher.launch import Launch
from plughost.engine.link import LinkCallbacks


class ProcessLink:
    """A process below a launcher, and the channel over its stdin and stdout."""

    __slots__ = ("_process", "channel", "stderr")

    def __init__(self, launch: Launch, callbacks: LinkCallbacks) -> None:
        loop = asyncio.get_running_loop()
        self._process = Process(
            launch,
            loop,
            callbacks.on_open,
            callbacks.on_exit,
            on_stderr=callbacks.on_stderr,
            on_denials=callbacks.on_denials,
            redactor=callbacks.redactor,
        )
        self.stderr: StderrTail = self._process.stderr
        self.channel = PipeChannel(
            loop,
            self._process.stdout,
            self._process.stdin,
            on_data=callbacks.on_data,
            on_end=callbacks.on_end,
            on_broken=callbacks.on_broken,
            on_room=callbacks.on_room,
            on_watch_failed=callbacks.on_watch_failed,
            send=os.write if callbacks.on_sent is None else _observed_write(callbacks.on_sent),
        )

    @property
    def pid(self) -> int | None:
        return self._process.pid

    @property
    def held_by(self) -> str:
        return self._process.mode

    @property
    def confined_by(self) -> tuple[str, ...]:
        return self._process.confined_by

    @property
    def alive(self) -> bool:
        return self._process.alive

    @property
    def exit_status(self) -> int | None:
        return self._process.exit_status

    def terminate(self) -> None:
        self._process.terminate()

    def kill(self) -> None:
        self._process.kill()

    def kill_launcher(self) -> None:
        self._process.kill_launcher()

    def release(self) -> None:
        self._process.release()

    def abandon(self) -> None:
        self._process.abandon(self.channel)


def _observed_write(on_sent: Callable[[bytes], None]) -> Send:
    """`os.write` that reports what it has written."""

    def send(descriptor: int, data: bytes | memoryview) -> int:
        written = os.write(descriptor, data)
        on_sent(bytes(data[:written]))
        return written

    return send
