"""What one writes first: asyncio's own subprocess, StreamReader and StreamWriter."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec

from benchmarks.contenders.contender import Caller
from benchmarks.contenders.messages import Answer, Request, decode, encode

LIMIT = 4 << 20


class Streams(Caller):
    def __init__(self, name: str, command: tuple[str, ...]) -> None:
        self.name = name
        self._command = (*command, "lines")

    async def open(self) -> None:
        pipe = asyncio.subprocess.PIPE
        self._child = await asyncio.create_subprocess_exec(
            *self._command, stdin=pipe, stdout=pipe, limit=LIMIT
        )
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        self._to, self._from = self._child.stdin, self._child.stdout
        self._last_id = 0
        self._waiting: dict[int, asyncio.Future[Answer]] = {}
        self._turn = asyncio.Lock()
        self._reading = asyncio.create_task(self._read())

    async def close(self) -> None:
        self._to.close()
        await self._child.wait()
        await self._reading

    async def call(self, params: Any, method: str = "echo") -> Any:
        self._last_id += 1
        number = self._last_id
        future = self._waiting[number] = asyncio.get_running_loop().create_future()
        async with self._turn:
            self._to.write(encode(Request(method, number, params)) + b"\n")
            await self._to.drain()
        answer = await future
        return msgspec.json.decode(answer.result)

    async def _read(self) -> None:
        while line := await self._from.readline():
            answer = decode(line)
            self._waiting.pop(answer.id).set_result(answer)
