"""Starts pygls servers and sends them requests."""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Awaitable
from typing import Any

from pygls.client import JsonRPCClient

from benchmarks.contenders.contender import Caller
from benchmarks.peers.obedience import obey

SERVER = (sys.executable, "-m", "benchmarks.peers.pygls.server")


class Pygls(Caller):
    async def open(self) -> None:
        self._client = JsonRPCClient()
        await self._client.start_io(*SERVER)

    async def close(self) -> None:
        assert self._client.protocol.writer is not None
        self._client.protocol.writer.close()
        await self._client.stop()

    def call(self, params: Any, method: str = "echo") -> Awaitable[Any]:
        return self._client.protocol.send_request_async(method, params)

    def text(self, answer: Any) -> str:
        text: str = answer.text
        return text


logging.disable()
asyncio.run(obey(Pygls, "pygls"))
