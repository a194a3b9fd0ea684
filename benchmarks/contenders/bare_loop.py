"""plughost's shape with nothing in it: what a ledger, deadlines, contracts and supervision cost."""

from __future__ import annotations

import asyncio
import os
from typing import Any

import msgspec

from benchmarks.contenders.child import Child
from benchmarks.contenders.contender import Caller
from benchmarks.contenders.messages import Answer, Request, decode, encode

CHUNK = 65536


class BareLoop(Caller):
    """Non-blocking pipes watched by the loop; futures by id; nothing that could go wrong is handled."""

    def __init__(self, name: str, command: tuple[str, ...]) -> None:
        self.name = name
        self._command = (*command, "lines")

    async def open(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._child = Child(self._command)
        self._to = self._child.stdin
        self._from = self._child.stdout
        os.set_blocking(self._to, False)
        os.set_blocking(self._from, False)
        self._loop.add_reader(self._from, self._readable)
        self._last_id = 0
        self._waiting: dict[int, asyncio.Future[Answer]] = {}
        self._begun: list[bytes] = []
        self._outgoing: list[bytes] = []
        self._unwritten = memoryview(b"")

    async def close(self) -> None:
        self._loop.remove_reader(self._from)
        self._child.close()

    async def call(self, params: Any, method: str = "echo") -> Any:
        self._last_id += 1
        future = self._waiting[self._last_id] = self._loop.create_future()
        frame = encode(Request(method, self._last_id, params)) + b"\n"
        if len(self._waiting) == 1:
            self._write(frame)
        else:
            if not self._outgoing:
                self._loop.call_soon(self._flush)
            self._outgoing.append(frame)
        answer = await future
        return msgspec.json.decode(answer.result)

    def _flush(self) -> None:
        data = b"".join(self._outgoing)
        self._outgoing.clear()
        self._write(data)

    def _write(self, data: bytes) -> None:
        if self._unwritten:
            self._unwritten = memoryview(bytes(self._unwritten) + data)
            return
        written = self._try_to_write(data)
        if written < len(data):
            self._unwritten = memoryview(data)[written:]
            self._loop.add_writer(self._to, self._writable)

    def _writable(self) -> None:
        self._unwritten = self._unwritten[self._try_to_write(self._unwritten) :]
        if not self._unwritten:
            self._loop.remove_writer(self._to)

    def _try_to_write(self, data: bytes | memoryview) -> int:
        try:
            return os.write(self._to, data)
        except BlockingIOError:
            return 0

    def _readable(self) -> None:
        *lines, rest = os.read(self._from, CHUNK).split(b"\n")
        if lines:
            lines[0] = b"".join((*self._begun, lines[0]))
            self._begun.clear()
        if rest:
            self._begun.append(rest)
        for line in lines:
            answer = decode(line)
            self._waiting.pop(answer.id).set_result(answer)
